"""Checkpoint intervals: by steps, by time, or optimal for the failure rate (Young, Daly)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Protocol, final

from trainwright.core.progress import Progress
from trainwright.tracking.clock import Clock
from trainwright.tracking.events import Event, SaveBegun, Saved, SaveMissed, Saving, StepKept

_SAVES_LOOKED_AT = 20


class Due(Protocol):
    """Decides after each applied step whether to save a checkpoint.

    The decision may depend on the clock, because saving does not affect the training; see
    `RankRequests` for several ranks.
    """

    def due(self, progress: Progress) -> bool:
        """Is a save due at this step?"""
        ...


@final
class FirstOf:
    """Due when any of several is; all are asked."""

    def __init__(self, dues: Sequence[Due]) -> None:
        self._dues = tuple(dues)

    def due(self, progress: Progress) -> bool:
        """Is a save due at this step?"""
        due = False
        for one in self._dues:
            if one.due(progress):
                due = True
        return due


def best_interval_seconds(save_seconds: float, failure_seconds: float) -> float:
    """Optimal interval between saves, in seconds of training.

    With d = `save_seconds`, the training time lost to a save, and M = `failure_seconds`, the mean
    time between random failures: saving too often loses d each time, too rarely half an interval
    per failure. The optimum is sqrt(2 d M) to first order (Young 1974, "A first order approximation
    to the optimum checkpoint interval", Comm. ACM 17, 530) and

        sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + (d / 2M) / 9) - d    for d < 2M, else M

    to higher order (Daly 2006, "A higher order estimate of the optimum checkpoint interval for
    restart dumps", Future Generation Computer Systems 22, 303).
    """
    ratio = save_seconds / (2 * failure_seconds)
    if ratio >= 1:
        return failure_seconds
    young = math.sqrt(2 * save_seconds * failure_seconds)
    return young * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save_seconds


class Spacing(Protocol):
    """Time between saves."""

    @property
    def seconds(self) -> float:
        """Seconds from one save to the next."""
        ...

    def stalled(self, seconds: float) -> None:
        """Record how long a save stalled the training."""
        ...

    def held(self, seconds: float) -> None:
        """Add a later stall of the newest save."""
        ...

    def wrote(self, seconds: float) -> None:
        """Record how long a save took to write."""
        ...


@final
class FixedSpacing:
    """Constant interval."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def stalled(self, seconds: float) -> None:
        """No effect."""

    def held(self, seconds: float) -> None:
        """No effect."""

    def wrote(self, seconds: float) -> None:
        """No effect."""


@final
class BestSpacing:
    """Optimal interval for the mean cost of the saves so far: see `best_interval_seconds`.

    Never less than the longest write, so that no save waits for the previous one. 0 until a save
    was measured.
    """

    def __init__(self, failure_seconds: float) -> None:
        self._failure_seconds = failure_seconds
        self._stalls: list[float] = []
        self._longest_write = 0.0

    @property
    def seconds(self) -> float:
        """Seconds from one save to the next."""
        if not self._stalls:
            return 0.0
        best = best_interval_seconds(statistics.fmean(self._stalls), self._failure_seconds)
        return max(best, self._longest_write)

    def stalled(self, seconds: float) -> None:
        """Record a save."""
        self._stalls.append(seconds)
        del self._stalls[:-_SAVES_LOOKED_AT]

    def held(self, seconds: float) -> None:
        """Add to the newest save: the mean does not depend on which one it was."""
        self._stalls[-1] += seconds

    def wrote(self, seconds: float) -> None:
        """Record a write."""
        self._longest_write = max(self._longest_write, seconds)


@final
class ShareSpacing:
    """Interval that spends a given share of the time on saves like the last one; never less than
    `least` seconds."""

    def __init__(self, share: float, least_seconds: float) -> None:
        self._share = share
        self._least_seconds = least_seconds
        self.seconds = least_seconds

    def stalled(self, seconds: float) -> None:
        """Record a save."""
        self.seconds = max(self._least_seconds, seconds / self._share)

    def held(self, seconds: float) -> None:
        """No effect."""

    def wrote(self, seconds: float) -> None:
        """No effect."""


@final
class ByClock:
    """Due when enough time has passed since the last save, whatever caused it. An observer of the
    saves."""

    def __init__(self, spacing: Spacing, clock: Clock) -> None:
        self._spacing = spacing
        self._clock = clock
        self._since = clock.monotonic_seconds()
        self._seconds = spacing.seconds
        self._saving_since = math.nan

    def due(self, progress: Progress) -> bool:  # noqa: ARG002
        """Is a save due at this step?"""
        return self._clock.monotonic_seconds() - self._since >= self._seconds

    def observe(self, event: Event) -> None:
        """Note what a save costs: how long it stalls the training, and takes to write."""
        if type(event) is StepKept:
            return
        if isinstance(event, Saving):
            self._saving_since = self._clock.monotonic_seconds()
        elif isinstance(event, SaveBegun | Saved | SaveMissed):
            self._go_on()
            if isinstance(event, Saved):
                self._spacing.wrote(event.seconds)
                self._spacing.held(event.held_seconds)
            self._seconds = self._spacing.seconds

    def stalled(self, seconds: float) -> None:
        """A save stalled the training, which continues now."""
        self._spacing.stalled(seconds)
        self._since = self._clock.monotonic_seconds()
        self._seconds = self._spacing.seconds

    def _go_on(self) -> None:
        """The training continues, if it was stalled."""
        if not math.isnan(self._saving_since):
            self.stalled(self._clock.monotonic_seconds() - self._saving_since)
            self._saving_since = math.nan
