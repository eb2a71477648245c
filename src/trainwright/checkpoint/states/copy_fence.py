"""Fence between late copies of tensors and their writers."""

from __future__ import annotations

import threading
import time
from functools import lru_cache
from typing import Final, NamedTuple, final

import torch
from torch import Tensor

_LOOKED_AT: Final = 16


@final
class TornSnapshot(Exception):
    """A tensor was written to while it was copied: the copy is not the state of any step."""


@final
class Fence:
    """Fence between tensors that are copied late and their writers.

    Forward and backward passes change neither weights nor optimizer state, so these are copied
    during the passes of the next step (CheckFreq: Mohan et al. 2021, FAST, section 4.1). The
    training thread calls `wait` before it writes to any of them.

    A writer that does not wait would tear the snapshot, so every snapshot is checked. When the
    copies are promised, the version of each tensor (torch's count of in-place writes) and the bits
    of 16 of its elements are recorded; `wait` compares them again, in the training thread and so
    with no write of its own in progress. The version detects every in-place write, except those of
    torch's fused optimizers and those through `.data`, NumPy or C code: for these there are the
    bits. Such a write goes undetected if it leaves the 16 elements of every tensor unchanged, as
    does an unfinished write of another thread.
    """

    def __init__(self) -> None:
        self._promised: list[_Late] = []
        self._begun: list[_Begun] = []
        self._left: list[_Late] = []
        self._lock = threading.Lock()
        self._looked = threading.Event()
        self._looked.set()
        self.waited_seconds = 0.0
        self.torn = ""

    def promise(self, name: str, tensor: Tensor, copy: Tensor) -> None:
        """Promise that after the next `begin` the tensor will be in `copy` by the time that `wait`
        returns."""
        self._promised.append(_Late(name, tensor.detach(), copy))

    def begin(self) -> None:
        """Start copying what was promised, in its current state."""
        self.waited_seconds, self.torn = 0.0, ""
        self._begun = [_Begun(late, _look(late.tensor)) for late in self._promised]
        self._left, self._promised = self._promised, []
        if self._begun:
            self._looked.clear()

    def forget(self) -> None:
        """Cancel what was promised since the last `begin`."""
        self._promised = []

    def wait(self) -> None:
        """Wait until nothing is being copied, so that the caller may write; copies what is left."""
        if not self._begun:
            return
        started = time.perf_counter()
        self._copy_all()
        for late, seen in self._begun:
            if not _same(_look(late.tensor), seen):
                self.torn = self.torn or late.name
        self.waited_seconds = time.perf_counter() - started
        self._looked.set()
        self._begun = []

    def whole(self) -> None:
        """Copy, and return once the copies are known to be consistent; for the saving thread.

        Raises:
            TornSnapshot: they are not.
        """
        self._copy_all()
        self._looked.wait()
        if self.torn:
            raise TornSnapshot(
                f"{self.torn} was written to while it was copied for a checkpoint, which was not "
                "kept: whatever writes to weights or to an optimizer's state outside of the step "
                "must wait at the fence (trainwright.checkpoint.states.copy_fence); until it does, "
                "set training.checkpointing.asynchronous: false"
            )

    def _copy_all(self) -> None:
        """Copy each tensor in whichever thread gets to it first. One is removed from the list once
        its copy is made: an interrupt leaves it there."""
        while True:
            with self._lock:
                if not self._left:
                    return
                late = self._left[-1]
                late.copy.copy_(late.tensor)
                self._left.pop()


class _Late(NamedTuple):
    """`tensor` shares memory and version counter with the trained tensor."""

    name: str
    tensor: Tensor
    copy: Tensor


class _Seen(NamedTuple):
    version: int
    bits: Tensor


class _Begun(NamedTuple):
    late: _Late
    seen: _Seen


def _look(tensor: Tensor) -> _Seen:
    # torch cannot index single elements of 8-bit floats.
    whole = tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor
    numbers = torch.take(whole, _places(whole.numel())) if whole.numel() else whole.reshape(0)
    return _Seen(tensor._version, numbers.view(torch.uint8))


def _same(one: _Seen, other: _Seen) -> bool:
    return one.version == other.version and torch.equal(one.bits, other.bits)


@lru_cache(maxsize=256)
def _places(count: int) -> Tensor:
    """Evenly spaced indices, from the first to the last element."""
    return torch.linspace(0, count - 1, _LOOKED_AT, dtype=torch.float64).long()
