"""State of weight averages (EMA, SWA)."""

from __future__ import annotations

from typing import final

from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.states.mismatch import check_same_layout
from trainwright.checkpoint.states.module_state import frozen_parameters
from trainwright.optim.ema import EMA
from trainwright.optim.swa import SWA


@final
class EMAState:
    """Average of each weight by name."""

    def __init__(self, mean: EMA) -> None:
        self._mean = mean

    def snapshot(self) -> Snapshot:
        """Copy of the average."""
        mean = self._mean.mean
        frozen = frozen_parameters(self._mean.parameters, mean)
        return Snapshot(tensors=mean, updated=mean, frozen=frozen)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the average.

        Raises:
            Mistake: names, shapes or dtypes differ from the model's; nothing has changed.
        """
        check_same_layout("mean of the weights", self._mean.mean, snapshot.tensors)
        for name, mean in self._mean.mean.items():
            mean.copy_(snapshot.tensors[name])


@final
class SWAState:
    """Average of each weight and statistics of each norm by name, and the number of averaged
    weights."""

    def __init__(self, mean: SWA) -> None:
        self._mean = mean

    def snapshot(self) -> Snapshot:
        """Copy of the average."""
        mean = self._mean.mean
        frozen = frozen_parameters(self._mean.parameters, mean)
        return Snapshot(tensors=mean, values=self._mean.values, updated=mean, frozen=frozen)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the average.

        Raises:
            Mistake: names, shapes or dtypes differ from the model's; nothing has changed.
        """
        check_same_layout("mean of the weights", self._mean.mean, snapshot.tensors)
        for name, mean in self._mean.mean.items():
            mean.copy_(snapshot.tensors[name])
        self._mean.values = snapshot.values
