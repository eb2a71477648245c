"""Snapshot buffers: fresh or reused memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol, final

import torch
from torch import Tensor

Promise = Callable[[str, Tensor, Tensor], object]
"""Receives the name of a tensor, the tensor, and its destination."""

_Key = tuple[torch.dtype, torch.Size, bool]


class SnapshotMemory(Protocol):
    """Allocates copies of tensors, on the CPU and contiguous, that nothing else writes to."""

    def copy(self, tensor: Tensor) -> Tensor:
        """Copy that is complete when the enclosing `used` block exits."""
        ...

    def copy_later(self, name: str, tensor: Tensor) -> Tensor:
        """Copy of a tensor that only an update of the weights changes; complete before any
        update."""
        ...


@final
class FreshMemory:
    """A new buffer for each tensor."""

    def copy(self, tensor: Tensor) -> Tensor:
        """Copy that is complete at once."""
        copied = tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        return copied.contiguous()

    def copy_later(self, name: str, tensor: Tensor) -> Tensor:  # noqa: ARG002
        """Copy that is complete at once."""
        return self.copy(tensor)


def at_once(name: str, tensor: Tensor, copy: Tensor) -> None:  # noqa: ARG001
    """Fulfil the promise at once."""
    copy.copy_(tensor.detach())


@final
class ReusedMemory:
    """Lends the memory of one snapshot, and reclaims it for the next.

    Memory is pinned for GPU tensors, so that all copies are in flight together and the device is
    synchronised once. Buffers unused by the latest snapshot are freed, so there is never more than
    one state of the run in memory.

    Args:
        promise: ensures that a tensor is copied before it changes. GPU tensors are copied at once
            either way.
    """

    def __init__(self, promise: Promise = at_once) -> None:
        self._promise = promise
        self._free: dict[_Key, list[Tensor]] = {}
        self._lent: list[tuple[_Key, Tensor]] = []

    @contextmanager
    def used(self) -> Iterator[None]:
        """Inside the block snapshots are copied into this memory."""
        token = _MEMORY.set(self)
        try:
            yield
            if any(pinned for (_, _, pinned), _ in self._lent):
                torch.cuda.current_stream().synchronize()
        except BaseException:
            self.take_back()
            raise
        finally:
            _MEMORY.reset(token)

    def copy(self, tensor: Tensor) -> Tensor:
        """Copy in memory that is lent until `take_back`."""
        buffer = self._lend(tensor)
        buffer.copy_(tensor.detach(), non_blocking=tensor.is_cuda)
        return buffer

    def copy_later(self, name: str, tensor: Tensor) -> Tensor:
        """Memory that will contain the promised copy."""
        if tensor.is_cuda:
            return self.copy(tensor)
        buffer = self._lend(tensor)
        self._promise(name, tensor, buffer)
        return buffer

    def take_back(self) -> None:
        """Reclaim everything lent: nothing reads it any more."""
        if not self._lent:
            return
        self._free.clear()
        for key, buffer in self._lent:
            self._free.setdefault(key, []).append(buffer)
        self._lent.clear()

    def _lend(self, tensor: Tensor) -> Tensor:
        """Contiguous memory for a tensor of this dtype and shape."""
        key = (tensor.dtype, tensor.shape, tensor.is_cuda)
        same = self._free.get(key)
        if same:
            buffer = same.pop()
        else:
            buffer = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
        self._lent.append((key, buffer))
        return buffer


_FRESH: Final = FreshMemory()
_MEMORY: ContextVar[SnapshotMemory] = ContextVar("memory of snapshots", default=_FRESH)


def copy_of(tensor: Tensor) -> Tensor:
    """Copy in the memory in use."""
    return _MEMORY.get().copy(tensor)


def later_copy_of(name: str, tensor: Tensor) -> Tensor:
    """The same for a tensor that only an update of the weights changes."""
    return _MEMORY.get().copy_later(name, tensor)
