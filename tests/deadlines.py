"""Deadlines that grow with the time that this machine, as busy as it is, takes for its work."""

from __future__ import annotations

import time
from functools import cache
from statistics import median

QUIET = 0.025
"""Seconds that `_work` takes on a machine on which the deadlines are as they are written."""


def within(seconds: float) -> float:
    """A deadline of a piece of work that takes less than so many seconds on a quiet machine."""
    return seconds * slowness()


@cache
def slowness() -> float:
    """How many times longer than on a quiet machine something takes; measured once a process."""
    return max(1.0, median(_timed() for _ in range(5)) / QUIET)


def _timed() -> float:
    began = time.perf_counter()
    _work()
    return time.perf_counter() - began


def _work() -> int:
    return sum(number * number % 7 for number in range(400_000))
