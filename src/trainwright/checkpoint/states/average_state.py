"""State of weight averages (EMA, SWA), and of a plateau schedule."""

from __future__ import annotations

from typing import final

from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.states.module_state import check_same_layout, frozen_parameters
from trainwright.core.files import Json
from trainwright.distributed.tensor_shards import write_into
from trainwright.optim.ema import EMA
from trainwright.optim.plateau import Plateau
from trainwright.optim.swa import SWA


@final
class EMAState:
    """Average of each weight by name."""

    def __init__(self, mean: EMA) -> None:
        self._mean = mean

    def snapshot(self) -> Snapshot:
        """Copy of the average."""
        return _snapshot_of(self._mean)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the average.

        Raises:
            Mistake: names, shapes or dtypes differ from the model's; nothing has changed.
        """
        _restore(self._mean, snapshot)


@final
class SWAState:
    """Average of each weight and statistics of each norm by name, and the number of averaged
    weights."""

    def __init__(self, mean: SWA) -> None:
        self._mean = mean

    def snapshot(self) -> Snapshot:
        """Copy of the average."""
        return _snapshot_of(self._mean, self._mean.values)

    def restore(self, snapshot: Snapshot) -> None:
        """As `EMAState.restore`."""
        _restore(self._mean, snapshot)
        self._mean.values = snapshot.values


def _snapshot_of(mean: EMA | SWA, values: Json = None) -> Snapshot:
    frozen = frozen_parameters(mean.parameters, mean.mean)
    return Snapshot(tensors=mean.mean, values=values, updated=mean.mean, frozen=frozen)


def _restore(mean: EMA | SWA, snapshot: Snapshot) -> None:
    check_same_layout("mean of the weights", mean.mean, snapshot.tensors)
    for name, one in mean.mean.items():
        write_into(one, snapshot.tensors[name])


@final
class PlateauState:
    """Best loss, validations since, and number of reductions."""

    def __init__(self, plateau: Plateau) -> None:
        self._plateau = plateau

    def snapshot(self) -> Snapshot:
        """State of the plateau."""
        return Snapshot(values=self._plateau.values)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state."""
        self._plateau.values = snapshot.values
