"""Signal handling: SIGTERM and SIGINT end a run gracefully, SIGUSR1 requests a checkpoint."""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from trainwright.core.errors import Interrupted
from trainwright.core.stop_flag import StopFlag


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


_WAKE = signal.SIGUSR2
_HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, _WAKE)
