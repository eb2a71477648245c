"""Copies that are made while the training goes on, and the fence before whoever writes."""

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
    """Something wrote to a tensor while it was copied: what was copied is the state of no step."""


@final
class Fence:
    """Stands between the tensors that are copied late and whoever writes to them.

    Forward and backward passes change neither weights nor what an optimizer keeps, so these are
    copied while the passes of the next step run (CheckFreq: Mohan et al. 2021, FAST, section 4.1).
    The thread that trains calls `wait` before it writes to any of them.

    A writer that does not wait would tear the snapshot, so none is written without proof. When the
    copies are promised, the version of each tensor (torch's count of writes in place) and the bits
    of 16 of its numbers are taken; `wait` looks at them again, in the thread that trains and so
    with no write of its under way. The version sees each write of one number, but not those of
    torch's fused optimizers, nor those through `.data`, NumPy or C code: for them there are the
    bits. Not seen is such a write if it leaves the 16 numbers of every tensor as they were, and a
    write of another thread that has not ended.
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
        """After the next `begin` the tensor is in `copy` by the time that `wait` returns."""
        self._promised.append(_Late(name, tensor.detach(), copy))

    def begin(self) -> None:
        """What was promised is copied from here on as it is now."""
        self.waited_seconds, self.torn = 0.0, ""
        self._begun = [_Begun(late, _look(late.tensor)) for late in self._promised]
        self._left, self._promised = self._promised, []
        if self._begun:
            self._looked.clear()

    def forget(self) -> None:
        """Nobody wants what was promised since the last `begin`."""
        self._promised = []

    def wait(self) -> None:
        """Until nothing is copied any more, and whoever calls may write; copies what is left."""
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
        """Copy, and return when it is certain that the copies are of one moment; for the thread
        that saves.

        Raises:
            TornSnapshot: they are not.
        """
        self._copy_all()
        self._looked.wait()
        if self.torn:
            raise TornSnapshot(
                f"{self.torn} was written to while it was copied for a checkpoint, which is not "
                "kept: whatever writes to weights or to an optimizer's state outside of the step "
                "must wait at the fence (trainwright.checkpoint.copy_fence); until it does, set "
                "training.checkpointing.asynchronous: false"
            )

    def _copy_all(self) -> None:
        """Each by whichever thread comes first. One is taken off the list when its copy is made: an
        interrupt leaves it there."""
        while True:
            with self._lock:
                if not self._left:
                    return
                late = self._left[-1]
                late.copy.copy_(late.tensor)
                self._left.pop()


class _Late(NamedTuple):
    """`tensor` shares memory and version with the one that is trained."""

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
    # torch takes no single numbers out of 8-bit floats.
    whole = tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor
    numbers = torch.take(whole, _places(whole.numel())) if whole.numel() else whole.reshape(0)
    return _Seen(tensor._version, numbers.view(torch.uint8))


def _same(one: _Seen, other: _Seen) -> bool:
    return one.version == other.version and torch.equal(one.bits, other.bits)


@lru_cache(maxsize=256)
def _places(count: int) -> Tensor:
    """From the first to the last of so many numbers."""
    return torch.linspace(0, count - 1, _LOOKED_AT, dtype=torch.float64).long()
