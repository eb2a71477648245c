"""Memory that forked processes share, for the rows of a block and what is made of them. Needs
torch.

It has no name, so nothing of it is left once its last process has died, however that died.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Sequence
from typing import final

import numpy as np
import torch

from trainwright.core.files import Json
from trainwright.data.base.permutation import Positions
from trainwright.data.loading.dataset import Batch

_ALIGNED_BYTES = 64
_FIRST_BYTES = 2**20


@final
class SharedBuffer:
    """One block at a time: its rows, written by the process that asks, and behind them its tensors,
    written by the one that makes them. It grows with what is written. To be made before the fork.
    """

    def __init__(self) -> None:
        self._file = os.memfd_create("trainwright-block", os.MFD_CLOEXEC)
        os.ftruncate(self._file, _FIRST_BYTES)
        self._memory = mmap.mmap(self._file, _FIRST_BYTES)

    def write_rows(self, rows: Positions) -> None:
        """The rows that are asked for."""
        data = rows.astype("<i8", copy=False)
        self._hold(data.nbytes)
        self._memory[: data.nbytes] = data.tobytes()

    def read_rows(self, count: int) -> Positions:
        """The rows that were asked for; a copy."""
        self._map(8 * count)
        return np.frombuffer(self._memory, "<i8", count).astype(np.int64)

    def write(self, batch: Batch, rows: int) -> Json:
        """What was made of the rows; gives where it lies."""
        places: list[tuple[str, list[int], int]] = []
        start = 8 * rows
        for tensor in batch:
            start = -(-start // _ALIGNED_BYTES) * _ALIGNED_BYTES
            places.append((str(tensor.dtype).removeprefix("torch."), list(tensor.shape), start))
            start += tensor.numel() * tensor.element_size()
        self._hold(start)
        for view, tensor in zip(self.views(places), batch, strict=True):
            view.copy_(tensor)
        return places

    def views(self, places: Sequence[Sequence[Json]]) -> Batch:
        """What `write` left there, as it lies in the memory: the next block is written over it."""
        views = []
        for name, shape, start in places:
            dtype = getattr(torch, name)
            count = math.prod(shape)
            self._map(start + count * dtype.itemsize)
            if count:
                flat = torch.frombuffer(self._memory, dtype=dtype, count=count, offset=start)
                views.append(flat.view(shape))
            else:
                views.append(torch.empty(shape, dtype=dtype))
        return tuple(views)

    def close(self) -> None:
        """Give the memory back once nothing of it is in use."""
        os.close(self._file)

    def _hold(self, size: int) -> None:
        """Make it at least so large."""
        if size > os.fstat(self._file).st_size:
            os.ftruncate(self._file, size)
        self._map(size)

    def _map(self, size: int) -> None:
        """See at least so much of it; another process may have made it larger."""
        if size > len(self._memory):
            self._memory = mmap.mmap(self._file, os.fstat(self._file).st_size)
