"""Dropping the updates of a bad data region after a rollback."""

from __future__ import annotations

import math
from typing import final

from trainwright.checkpoint.state import Snapshot
from trainwright.engine.guards.spike_detection import SpikeWatch

_UNKNOWN_STEPS = 32
_CALM_IN_A_ROW = 32
_MOST_DROPPED = 64


@final
class BadRegion:
    """Loss limit above which updates are dropped, from a rollback until the bad region ends.

    The rollback also restores the spike watch, so the usual loss is that of the restored weights.
    If it has too few steps to define one, the next 32 steps are dropped unseen. The region ends
    after 32 calm steps in a row. After 64 dropped steps the new level is accepted as usual: the
    data or the weights have changed, and this is no region of bad rows.
    """

    def __init__(self, watch: SpikeWatch) -> None:
        self._watch = watch
        self.is_open = False
        self._limit = math.nan
        self._dropped = 0
        self._calm = 0

    def begin(self) -> None:
        """Start a region; the limit is computed once the rollback is done."""
        self.is_open = True
        self._limit = math.nan
        self._dropped = self._calm = 0

    def limit(self) -> float:
        """Loss above which an update is dropped; infinite outside a region. Constant between calls
        of `settle`."""
        if not self.is_open:
            return math.inf
        if math.isnan(self._limit):
            self._limit = self._watch.usual_limit()
        return self._limit

    def take(self, *, dropped: bool) -> None:
        """Count a step."""
        self._dropped += dropped
        self._calm = 0 if dropped else self._calm + 1

    def settle(self) -> None:
        """Close the region if it is over."""
        unknown = self._limit == -math.inf
        if self._dropped >= _MOST_DROPPED and not unknown:
            self._watch.rearm()
            self.is_open = False
        elif self._calm >= _CALM_IN_A_ROW or (unknown and self._dropped >= _UNKNOWN_STEPS):
            self.is_open = False

    def snapshot(self) -> Snapshot:
        """State of the region."""
        return Snapshot(
            values={
                "is_open": self.is_open,
                "limit": self.limit(),
                "dropped": self._dropped,
                "calm": self._calm,
            }
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state."""
        values = snapshot.values
        self.is_open = bool(values["is_open"])
        self._limit = float(values["limit"])
        self._dropped, self._calm = int(values["dropped"]), int(values["calm"])
