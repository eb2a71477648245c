"""Deadlines for library calls that may never return."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_LOOK_SECONDS = 0.05


class Overrun(Exception):
    """A call exceeded its time limit or, if not `late`, another limit."""

    def __init__(self, *, is_late: bool) -> None:
        self.is_late = is_late
        super().__init__("late" if is_late else "over")


def call_within(
    seconds: float, function: Callable[[], T], is_over: Callable[[], bool] = lambda: False
) -> T:
    """Result or exception of `function`, called in a thread of its own.

    A thread that takes too long is abandoned: it cannot be stopped, and does not keep the process
    from ending.

    Raises:
        Overrun: it took longer than `seconds`, or `is_over`, which is polled, said so.
    """
    outcome: list[tuple[T] | BaseException] = []

    def call() -> None:
        try:
            outcome.append((function(),))
        except BaseException as error:  # it belongs to the caller, whatever it is
            outcome.append(error)

    thread = threading.Thread(target=call, daemon=True)
    until = time.monotonic() + seconds
    thread.start()
    while not outcome and thread.is_alive():
        thread.join(min(_LOOK_SECONDS, max(0.0, until - time.monotonic())))
        is_late = time.monotonic() >= until
        if not outcome and (is_late or is_over()):
            raise Overrun(is_late=is_late)
    thread.join()
    (found,) = outcome
    if isinstance(found, BaseException):
        raise found
    return found[0]
