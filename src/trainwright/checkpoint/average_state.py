"""The state of a mean of the weights."""

from __future__ import annotations

from typing import final

from trainwright.checkpoint.mismatch import check_same_layout
from trainwright.checkpoint.state import Snapshot
from trainwright.optim.ema import EMA
from trainwright.optim.swa import SWA


@final
class EMAState:
    """The mean of each weight by name."""

    def __init__(self, mean: EMA) -> None:
        self._mean = mean

    def snapshot(self) -> Snapshot:
        """A copy of the mean."""
        return Snapshot(tensors=self._mean.mean, updated=self._mean.mean)

    def restore(self, snapshot: Snapshot) -> None:
        """Write the mean back.

        Raises:
            Mistake: of a model with other names, shapes or dtypes; nothing has changed.
        """
        check_same_layout("mean of the weights", self._mean.mean, snapshot.tensors)
        for name, mean in self._mean.mean.items():
            mean.copy_(snapshot.tensors[name])


@final
class SWAState:
    """The mean of each weight and the statistics of each norm by name, and how often weights were
    taken."""

    def __init__(self, mean: SWA) -> None:
        self._mean = mean

    def snapshot(self) -> Snapshot:
        """A copy of the mean."""
        mean = self._mean.mean
        return Snapshot(tensors=mean, values=self._mean.values, updated=mean)

    def restore(self, snapshot: Snapshot) -> None:
        """Write the mean back.

        Raises:
            Mistake: of a model with other names, shapes or dtypes; nothing has changed.
        """
        check_same_layout("mean of the weights", self._mean.mean, snapshot.tensors)
        for name, mean in self._mean.mean.items():
            mean.copy_(snapshot.tensors[name])
        self._mean.values = snapshot.values
