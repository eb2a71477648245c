"""Dataset of memory-mapped arrays. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trainwright.data.base.permutation import Positions
from trainwright.data.loading.batch import Batch


@final
class MemmapDataset:
    """Aligned memory-mapped arrays, read by row; `finish` converts `target` for the loss. The same
    in every epoch."""

    def __init__(
        self,
        arrays: Mapping[str, npt.NDArray[Any]],
        finish: Callable[[Tensor], Tensor],
        device: torch.device,
    ) -> None:
        self._arrays = dict(arrays)
        self._finish = finish
        self._device = device
        self.rows = len(self._arrays["target"])
        self.row_bytes = sum(one[:1].nbytes for one in self._arrays.values())

    def take(self, epoch: int, rows: Positions) -> Batch:  # noqa: ARG002
        """The rows of each array."""
        # In file order, for sequential reads.
        order = np.argsort(rows, kind="stable")
        tensors = {
            name: torch.from_numpy(_taken(one, rows, order)) for name, one in self._arrays.items()
        }
        tensors["target"] = self._finish(tensors["target"])
        return Batch(tensors, rows=rows).move(
            lambda tensor: tensor.to(self._device, non_blocking=True)
        )


def _taken(values: npt.NDArray[Any], rows: Positions, order: Positions) -> npt.NDArray[Any]:
    found = np.empty((len(rows), *values.shape[1:]), values.dtype)
    found[order] = values[rows[order]]
    return found
