"""How long each training of a run has trained: what a budget is held against."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import final

from trainwright.tracking.clock import Clock, SystemClock

_NOTHING: Mapping[str, float] = MappingProxyType({})


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
