"""What ends a run gracefully: signals, preemption notices; whether a shutdown fits them."""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Literal, Protocol, final

from trainwright.contract.sections.run_settings import Resume
from trainwright.contract.sections.section import settled
from trainwright.core.errors import Interrupted
from trainwright.core.formatting import show_seconds
from trainwright.core.progress import StopFlag
from trainwright.run.screen import Screen, labelled
from trainwright.tracking.events import (
    Ended,
    Event,
    Noted,
    Observer,
    Observers,
    Saved,
    StepKept,
    Validated,
)

_WAKE = signal.SIGUSR2
_HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, _WAKE)
_MOST_SHOWN = 200
_UNKNOWN = "whether this machine will be taken away is not known"


@contextmanager
def stop_on_signals(flag: StopFlag) -> Iterator[Callable[[], None]]:
    """Inside the block, the first SIGTERM or SIGINT requests a graceful shutdown: at once where
    nothing checks the stop flag, as while data is read or a model is judged, else after the current
    step. The second ends the process at once; every file is still whole or absent. SIGUSR1 requests
    a checkpoint.

    Yields a function for a thread to call after it has set the stop flag, which also ends the run
    where nothing checks it. A notice does not count as a signal: clouds send SIGTERM soon after
    one.

    Outside the main thread, where Python cannot handle signals, nothing changes.

    Raises:
        Interrupted: a first signal where nothing checks the flag. KeyboardInterrupt: a second one.
    """
    main = threading.main_thread()
    if threading.current_thread() is not main:
        yield _nothing
        return
    signals = itertools.count()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGUSR1:
            flag.ask_to_save()
            return
        if number != _WAKE:
            if next(signals):
                raise KeyboardInterrupt
            if not flag.is_up:
                flag.raise_flag(signal.Signals(number).name)
        if flag.is_up and not flag.is_watched:
            raise Interrupted(f"stopped by {flag.why}")

    def wake() -> None:
        if main.ident is not None and not flag.is_watched:
            signal.pthread_kill(main.ident, _WAKE)

    with _handled_by(on_signal):
        yield wake


@contextmanager
def _handled_by(on_signal: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, on_signal) for number in _HANDLED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _nothing() -> None:
    """Nothing to wake."""


@contextmanager
def before_the_run(flag: StopFlag) -> Iterator[None]:
    """Inside the block nothing is written, so an interruption there loses nothing.

    A library interrupted by a signal may raise an error of its own; it still counts as the
    interruption.
    """
    try:
        yield
    except Exception as error:
        if not flag.is_up:
            raise
        text = "before the run began: nothing was written, so give the same command again"
        raise Interrupted(f"stopped by {flag.why} {text}") from error


class NoticeSource(Protocol):
    """Source of preemption notices. Polled from a thread."""

    def look(self) -> str:
        """Short description of a notice; empty without one.

        Waits at most seconds for a source that does not respond.

        Raises:
            OSError: it cannot be reached at the moment. ValueError: the response is invalid.
        """
        ...


@final
@dataclass(frozen=True, slots=True)
class NoNotices:
    """Machine that is never preempted."""

    def look(self) -> str:
        """Always empty."""
        return ""


@final
@dataclass(frozen=True, slots=True)
class NoticeFile:
    """File that is created when the machine is to be given up. Its first line is reported."""

    path: Path

    def look(self) -> str:
        """Notice if the file exists."""
        try:
            with self.path.open(encoding="utf-8", errors="replace") as stream:
                line = stream.readline(_MOST_SHOWN).strip()
        except FileNotFoundError:
            return ""
        told = f"the notice {self.path}{line and f': {line}'}"
        # Non-printable characters could control a terminal.
        return "".join(mark for mark in told if mark.isprintable()).strip()


def build_notices(section: Resume, folder: Path) -> NoticeSource:
    """Sources of the contract in `folder`, against which relative paths are resolved."""
    notice: Literal["off", "aws", "gcp", "azure"] | str = section.notice
    if notice == "off":
        return NoNotices()
    # Imported here: few clouds send notices.
    from trainwright.run.supervise.cloud_notices import Azure, Ec2, GoogleCloud

    match notice:
        case "aws":
            return Ec2()
        case "gcp":
            return GoogleCloud()
        case "azure":
            return Azure()
        case path:
            return NoticeFile(folder / path)


@final
class NoticeWatch:
    """Polls for a notice, and records failures."""

    def __init__(self, source: NoticeSource, flag: StopFlag, wake: Callable[[], None]) -> None:
        self._source = source
        self._flag = flag
        self._wake = wake
        self._over = threading.Event()
        self._telling = threading.Lock()
        self._trouble = ""

    def look(self) -> bool:
        """Poll once, and set the stop flag on a notice; whether there was one."""
        try:
            told = self._source.look()
        except (OSError, ValueError) as error:
            self._trouble = str(error) or type(error).__name__
            return False
        self._trouble = ""
        with self._telling:
            # After the block the wake-up signal has no handler and would end the process.
            if told and not self._over.is_set():
                self._flag.raise_flag(told)
                self._wake()
        return bool(told)

    def watch(self, seconds: float) -> None:
        """Poll periodically, until there is a notice or it is `over`."""
        while not self._over.wait(seconds):
            if self.look():
                return

    def over(self) -> None:
        """Stop watching."""
        with self._telling:
            self._over.set()

    @property
    def trouble(self) -> str:
        """Why the last poll failed; empty if it did not."""
        return self._trouble and f"{_UNKNOWN}: {self._trouble}"


@contextmanager
def stop_on_notice(
    section: Resume, folder: Path, flag: StopFlag, wake: Callable[[], None]
) -> Iterator[NoticeWatch]:
    """Inside the block a notice ends the run gracefully, like SIGTERM. `folder` is the contract's.

    The first poll is made here, so that its result can be reported before training; all others by a
    daemon thread. `wake` is called where nothing checks the stop flag.
    """
    watch = NoticeWatch(build_notices(section, folder), flag, wake)
    if section.notice == "off":
        yield watch
        return
    if not watch.look():
        name, seconds = "notices", (section.notice_every_seconds,)
        threading.Thread(target=watch.watch, args=seconds, name=name, daemon=True).start()
    try:
        yield watch
    finally:
        watch.over()


def watch_grace(section: Resume, observers: Sequence[Observer], screen: Screen) -> GraceWatch:
    """Watch of the shutdown time in all trainings of a run, which notifies its observers."""

    def tell(note: Noted) -> None:
        screen.say(labelled("warning", note.message))
        Observers(observers, screen.say).observe(note)

    return GraceWatch(settled(section.grace_seconds), tell)


@final
class GraceWatch:
    """Records how long steps, validations and saves take, and warns once if the longest of each
    together exceed the grace period.

    A notice may come at the start of a step that is followed by a validation; the checkpoint
    follows both. The first step of a training is a warm-up and does not count.
    """

    def __init__(self, grace_seconds: float, tell: Callable[[Noted], None]) -> None:
        self._grace_seconds = grace_seconds
        self._tell = tell
        self._started = False
        self._longest = {"a step": 0.0, "a validation": 0.0, "a save": 0.0}

    def observe(self, event: Event) -> None:
        """Record a duration."""
        if type(event) is StepKept:
            if event.outcome.step_seconds > self._longest["a step"] and self._started:
                self._longest["a step"] = event.outcome.step_seconds
            self._started = True
        elif isinstance(event, Validated):
            self._longest["a validation"] = max(self._longest["a validation"], event.seconds)
        elif isinstance(event, Saved):
            self._longest["a save"] = max(self._longest["a save"], event.seconds)
            self._judge()
        elif isinstance(event, Ended):
            self._started = False

    def _judge(self) -> None:
        needed = sum(self._longest.values())
        if needed <= self._grace_seconds:
            return
        parts = ", ".join(f"{what} {show_seconds(took)}" for what, took in self._longest.items())
        self._tell(
            Noted(
                "grace",
                f"a graceful shutdown may take {show_seconds(needed)} ({parts}), but the machine "
                f"lasts {show_seconds(self._grace_seconds)} after a notice (resume.grace_seconds): "
                "the checkpoint may come too late",
                {"needed_seconds": needed, "grace_seconds": self._grace_seconds},
            )
        )
        self._grace_seconds = float("inf")
