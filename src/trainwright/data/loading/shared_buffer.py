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
from torch import Tensor

from trainwright.core.files import Json
from trainwright.data.base.counter_rng import Positions
from trainwright.data.loading.batch import NO_MASK, Batch, TargetMask

_ALIGNED_BYTES = 64
_FIRST_BYTES = 2**20
_MASK = ""


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
        """What was made of the rows; gives their names and where they lie."""
        mask = {} if isinstance(batch.mask, str) else {_MASK: batch.mask.host}
        places: list[tuple[str, str, list[int], int]] = []
        start = 8 * rows
        named = {**dict(batch.items()), **mask}
        for name, tensor in named.items():
            start = -(-start // _ALIGNED_BYTES) * _ALIGNED_BYTES
            dtype = str(tensor.dtype).removeprefix("torch.")
            places.append((name, dtype, list(tensor.shape), start))
            start += tensor.numel() * tensor.element_size()
        self._hold(start)
        for name, view in self._views(places).items():
            view.copy_(named[name])
        return {"target": batch.target_name, "tensors": places}

    def view(self, written: Json) -> Batch:
        """What `write` left there, as it lies in the memory: the next block is written over it."""
        tensors = self._views(written["tensors"])
        host = tensors.pop(_MASK, None)
        mask = NO_MASK if host is None else TargetMask(host, host)
        return Batch(tensors, target=written["target"], mask=mask)

    def _views(self, places: Sequence[Sequence[Json]]) -> dict[str, Tensor]:
        views: dict[str, Tensor] = {}
        for name, kind, shape, start in places:
            dtype = getattr(torch, kind)
            count = math.prod(shape)
            self._map(start + count * dtype.itemsize)
            if count:
                flat = torch.frombuffer(self._memory, dtype=dtype, count=count, offset=start)
                views[name] = flat.view(shape)
            else:
                views[name] = torch.empty(shape, dtype=dtype)
        return views

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
