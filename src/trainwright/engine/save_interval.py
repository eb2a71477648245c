"""When a checkpoint is due: by steps, by the clock, or as often as is best between failures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Protocol, final

from trainwright.core.progress import Progress
from trainwright.tracking.clock import Clock

_SAVES_LOOKED_AT = 20


class Due(Protocol):
    """Says of each kept step whether a checkpoint belongs behind it.

    What it says may hang on the clock, because a save changes nothing of the training. Where
    several ranks train, one of them is asked for all.
    """

    def due(self, progress: Progress) -> bool:
        """Whether it falls on this step."""
        ...


@final
class FirstOf:
    """Due when one of several is."""

    def __init__(self, dues: Sequence[Due]) -> None:
        self._dues = tuple(dues)

    def due(self, progress: Progress) -> bool:
        """Whether it falls on this step."""
        return any(one.due(progress) for one in self._dues)


def best_interval_seconds(save_seconds: float, failure_seconds: float) -> float:
    """The seconds of training between two saves that lose the least time.

    With d = `save_seconds`, what the training stands still for a save, and M = `failure_seconds`,
    the mean time between failures that come at random: saving too often loses d each time, too
    rarely loses half an interval at each failure. The optimum is sqrt(2 d M) to first order (Young
    1974, "A first order approximation to the optimum checkpoint interval", Comm. ACM 17, 530) and

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
    """How far apart saves are by the clock."""

    @property
    def seconds(self) -> float:
        """Seconds from one save to the next."""
        ...

    def stalled(self, seconds: float) -> None:
        """Take in how long the training stood still for a save."""
        ...

    def held(self, seconds: float) -> None:
        """Take in for how long more it stood still for that save, some time after."""
        ...

    def wrote(self, seconds: float) -> None:
        """Take in how long a save was being written."""
        ...


@final
class FixedSpacing:
    """Always the same."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def stalled(self, seconds: float) -> None:
        """Changes nothing."""

    def held(self, seconds: float) -> None:
        """Changes nothing."""

    def wrote(self, seconds: float) -> None:
        """Changes nothing."""


@final
class BestSpacing:
    """The best for the mean cost of the saves so far: see `best_interval_seconds`.

    Never less than the longest writing, so that no save waits for the one before it. 0 before
    anything was measured.
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
        """Take in a save."""
        self._stalls.append(seconds)
        del self._stalls[:-_SAVES_LOOKED_AT]

    def held(self, seconds: float) -> None:
        """Add to the newest save: which one is told does not change the mean."""
        self._stalls[-1] += seconds

    def wrote(self, seconds: float) -> None:
        """Take in a save."""
        self._longest_write = max(self._longest_write, seconds)


@final
class ShareSpacing:
    """So far apart that saves like the last one take a share of the time; never less than `least`
    seconds."""

    def __init__(self, share: float, least_seconds: float) -> None:
        self._share = share
        self._least_seconds = least_seconds
        self.seconds = least_seconds

    def stalled(self, seconds: float) -> None:
        """Take in a save."""
        self.seconds = max(self._least_seconds, seconds / self._share)

    def held(self, seconds: float) -> None:
        """Changes nothing."""

    def wrote(self, seconds: float) -> None:
        """Changes nothing."""


@final
class ByClock:
    """Due when enough time has passed since the last save, for whatever reason that was made."""

    def __init__(self, spacing: Spacing, clock: Clock) -> None:
        self._spacing = spacing
        self._clock = clock
        self._since = clock.monotonic_seconds()
        self._seconds = spacing.seconds

    def due(self, progress: Progress) -> bool:  # noqa: ARG002
        """Whether it falls on this step."""
        return self._clock.monotonic_seconds() - self._since >= self._seconds

    def stalled(self, seconds: float) -> None:
        """The training stood still for a save, and goes on just now."""
        self._spacing.stalled(seconds)
        self._since = self._clock.monotonic_seconds()
        self._seconds = self._spacing.seconds

    def wrote(self, seconds: float, held_seconds: float) -> None:
        """A save was being written for so long, and the training waited so long for its copies."""
        self._spacing.wrote(seconds)
        self._spacing.held(held_seconds)
        self._seconds = self._spacing.seconds
