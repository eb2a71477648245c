"""SIGTERM and SIGINT raise a flag; a second SIGINT ends the process at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from trainwright.core.flag import StopFlag


@contextmanager
def stop_on_signals(flag: StopFlag) -> Iterator[None]:
    """Inside the block, the first signal asks for an orderly end.

    Outside the main thread, where Python lets nobody handle signals, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if flag.is_up and number == signal.SIGINT:
            raise KeyboardInterrupt
        flag.raise_flag(signal.Signals(number).name)

    before = {number: signal.signal(number, on_signal) for number in _STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_STOPPING = (signal.SIGTERM, signal.SIGINT)
