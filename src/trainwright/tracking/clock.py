"""Clock, heartbeat, and how long each training of a run has trained."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Protocol, final

from trainwright.core.errors import StorageFailed

BEAT_SECONDS = 10.0
"""Longest time between two beats."""

_FIRST_SECONDS = 1.0
_NOTHING: Mapping[str, float] = MappingProxyType({})


class Clock(Protocol):
    """Dates for display, and a monotonic count of seconds for durations."""

    def now(self) -> datetime:
        """Date and time in UTC; it may jump when the machine's clock is set."""
        ...

    def monotonic_seconds(self) -> float:
        """Seconds since some fixed moment; only differences are meaningful."""
        ...


@final
class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """The date and time in UTC."""
        return datetime.now(UTC)

    def monotonic_seconds(self) -> float:
        """Seconds of the kernel's monotonic clock."""
        return time.monotonic()


def show_time(moment: datetime) -> str:
    """`2026-01-31T12:00:00.000Z`: UTC to the millisecond; sorts chronologically as text."""
    utc = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return utc.removesuffix("+00:00") + "Z"


@contextmanager
def beating(beat: Callable[[], None], most_seconds: float = BEAT_SECONDS) -> Iterator[None]:
    """Inside the block `beat` is called in a thread: after one second, then whenever the elapsed
    time has doubled, at least every `most_seconds`. Disk errors of a beat are ignored."""
    ended = threading.Event()

    def run() -> None:
        passed = pause = min(_FIRST_SECONDS, most_seconds)
        while not ended.wait(pause):
            pause = min(passed, most_seconds)
            passed += pause
            try:
                beat()
            except StorageFailed:
                continue  # the run says so itself when it has to write there

    thread = threading.Thread(target=run, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@final
class Spent:
    """Seconds of each training by its name, those of earlier attempts counted in.

    The trainings of folds and of other seeds count for themselves, as each has its share of the
    budget. Any thread may ask.
    """

    def __init__(self, before: Mapping[str, float] = _NOTHING, clock: Clock | None = None) -> None:
        self._seconds = dict(before)
        self._clock: Clock = SystemClock() if clock is None else clock
        self._since: dict[str, float] = {}
        self._lock = threading.Lock()

    @contextmanager
    def training(self, name: str) -> Iterator[None]:
        """Count the block to a training."""
        with self._lock:
            self._since[name] = self._clock.monotonic_seconds()
        try:
            yield
        finally:
            with self._lock:
                self._seconds[name] = self._used(name)
                del self._since[name]

    def used(self, name: str) -> float:
        """The seconds of a training until now."""
        with self._lock:
            return self._used(name)

    def to_json(self) -> dict[str, float]:
        """Of each training, until now."""
        with self._lock:
            return {name: self._used(name) for name in {**self._seconds, **self._since}}

    def _used(self, name: str) -> float:
        before = self._seconds.get(name, 0.0)
        if name not in self._since:
            return before
        return before + max(0.0, self._clock.monotonic_seconds() - self._since[name])
