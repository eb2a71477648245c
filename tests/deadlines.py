"""Deadlines that grow with the time that this machine, as busy as it is, takes for its work."""

from __future__ import annotations

import time
from statistics import median

QUIET = 0.025
"""Seconds that `_work` takes on a machine on which the deadlines are as they are written."""

SECONDS_BETWEEN = 30.0
"""How long a measurement holds: others may begin to use the machine at any time."""


def within(seconds: float) -> float:
    """A deadline of a piece of work that takes less than so many seconds on a quiet machine."""
    return seconds * slowness()


class _Measured:
    """The last measurement of this process."""

    slowness = 1.0
    until = -1.0


def slowness() -> float:
    """How many times longer than on a quiet machine something takes."""
    if time.monotonic() > _Measured.until:
        _Measured.slowness = max(1.0, median(_timed() for _ in range(5)) / QUIET)
        _Measured.until = time.monotonic() + SECONDS_BETWEEN
    return _Measured.slowness


def _timed() -> float:
    began = time.perf_counter()
    _work()
    return time.perf_counter() - began


def _work() -> int:
    return sum(number * number % 7 for number in range(400_000))
