"""Where the copies of a snapshot are made: in fresh memory, or in memory that is used again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol, final

import torch
from torch import Tensor


class SnapshotMemory(Protocol):
    """Gives copies of tensors, on the CPU and contiguous, that nobody else writes to."""

    def copy(self, tensor: Tensor) -> Tensor:
        """A copy; it is complete when the block that the memory is used in has ended."""
        ...

    def copy_later(self, name: str, tensor: Tensor) -> Tensor:
        """A copy of a tensor that only an update of the weights changes; it is complete before
        anything may do so."""
        ...


@final
class FreshMemory:
    """A copy of its own for each tensor."""

    def copy(self, tensor: Tensor) -> Tensor:
        """A copy that is complete at once."""
        copied = tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        return copied.contiguous()

    def copy_later(self, name: str, tensor: Tensor) -> Tensor:  # noqa: ARG002
        """A copy that is complete at once."""
        return self.copy(tensor)


Promise = Callable[[str, Tensor, Tensor], object]
"""Takes the name of a tensor, the tensor, and where its copy is to be."""


def at_once(name: str, tensor: Tensor, copy: Tensor) -> None:  # noqa: ARG001
    """The promise that is kept at once."""
    copy.copy_(tensor.detach())


@final
class ReusedMemory:
    """Lends the memory of one snapshot, and takes it back for the next.

    Memory is pinned for tensors of a GPU, so that all copies are under way at the same time and the
    device is waited for once. What the latest snapshot has not used is given up, so there is never
    more than one state of the run in it.

    Args:
        promise: sees to it that a tensor is copied before it changes. Tensors of a GPU are copied
            at once either way.
    """

    def __init__(self, promise: Promise = at_once) -> None:
        self._promise = promise
        self._free: dict[_Key, list[Tensor]] = {}
        self._lent: list[tuple[_Key, Tensor]] = []

    @contextmanager
    def used(self) -> Iterator[None]:
        """Inside the block the copies of snapshots are made here."""
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
        """A copy in memory that is lent until `take_back`."""
        buffer = self._lend(tensor)
        buffer.copy_(tensor.detach(), non_blocking=tensor.is_cuda)
        return buffer

    def copy_later(self, name: str, tensor: Tensor) -> Tensor:
        """The memory in which the copy is promised to be."""
        if tensor.is_cuda:
            return self.copy(tensor)
        buffer = self._lend(tensor)
        self._promise(name, tensor, buffer)
        return buffer

    def take_back(self) -> None:
        """Nobody reads what was lent any more."""
        if not self._lent:
            return
        self._free.clear()
        for key, buffer in self._lent:
            self._free.setdefault(key, []).append(buffer)
        self._lent.clear()

    def _lend(self, tensor: Tensor) -> Tensor:
        """Memory for a tensor of this kind, contiguous."""
        key = (tensor.dtype, tensor.shape, tensor.is_cuda)
        same = self._free.get(key)
        if same:
            buffer = same.pop()
        else:
            buffer = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
        self._lent.append((key, buffer))
        return buffer


_Key = tuple[torch.dtype, torch.Size, bool]
_FRESH: Final = FreshMemory()
_MEMORY: ContextVar[SnapshotMemory] = ContextVar("memory of snapshots", default=_FRESH)


def copy_of(tensor: Tensor) -> Tensor:
    """A copy in the memory that is in use."""
    return _MEMORY.get().copy(tensor)


def later_copy_of(name: str, tensor: Tensor) -> Tensor:
    """The same of a tensor that only an update of the weights changes."""
    return _MEMORY.get().copy_later(name, tensor)
