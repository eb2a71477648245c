"""Frozen weights: stored once for a run, and referred to by each checkpoint."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import pad

from trainwright.checkpoint.snapshot_buffers import later_copy_of

_WORDS_AT_ONCE = 1 << 16
"""Words of 8 bytes that are copied while a checksum is computed: half a megabyte."""

# Odd factors, as signed words, of SplitMix64 (Steele, Lea and Flood, 2014).
_GOLDEN, _MIX_1, _MIX_2 = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15


@final
@dataclass(frozen=True, slots=True)
class BaseTensor:
    """A tensor of a base: SHA-256 of the base's file (empty until it is stored), and its name in
    the file."""

    base: str
    name: str


@final
@dataclass(frozen=True, slots=True)
class NotInBase:
    """The tensor is in no base, or differs from it: it belongs in the checkpoint."""


@final
class FrozenBase:
    """Frozen tensors whose values one storage holds.

    The base is what is frozen at the first checkpoint of a run. A tensor is referred to as long as
    it has not changed since: its version (torch's count of in-place writes) and a checksum of all
    of its elements at their places are compared at each snapshot, and its SHA-256 if the version
    differs, as it does after weight averages were swapped in and out. One that changed is written
    again.
    """

    def __init__(self) -> None:
        self._watched: dict[int, _Watched] = {}
        self._added: dict[str, _Added] = {}
        self._is_open = False

    @contextmanager
    def used(self, *, is_first: bool) -> Iterator[None]:
        """Inside the block snapshots leave out what is in the base; with `is_first` they establish
        it."""
        self._added, self._is_open = {}, is_first
        token = _BASE.set(self)
        try:
            yield
        finally:
            _BASE.reset(token)

    def place(self, name: str, tensor: Tensor) -> BaseTensor | NotInBase:
        """Where the base holds the value of a frozen tensor; it is added if the base is open."""
        for added in self._added.values():
            if added.tensor is tensor:
                same = added.version == tensor._version
                return BaseTensor("", added.name) if same else NotInBase()
        known = self._watched.get(id(tensor))
        if known is not None and known.tensor() is tensor:
            return known.entry if known.is_unchanged(tensor) else NotInBase()
        if not self._is_open or not _is_plain(tensor):
            return NotInBase()
        key = name if name not in self._added else f"{name}#{len(self._added)}"
        copy = later_copy_of(f"frozen {key}", tensor)
        self._added[key] = _Added(key, tensor, tensor._version, copy)
        return BaseTensor("", key)

    @property
    def added(self) -> Mapping[str, Tensor]:
        """Copies of the tensors to store, by name."""
        return {name: added.copy for name, added in self._added.items()}

    def settle(self, sha256: str) -> None:
        """Record that the added tensors are stored."""
        for added in self._added.values():
            self._watch(added.tensor, BaseTensor(sha256, added.name), added.copy, added.version)
        self._added, self._is_open = {}, False

    def adopt(self, tensor: Tensor, entry: BaseTensor, value: Tensor) -> None:
        """Record that a tensor was restored to this value of a base."""
        if _is_plain(tensor):
            self._watch(tensor, entry, value, tensor._version)

    def _watch(self, tensor: Tensor, entry: BaseTensor, value: Tensor, version: int) -> None:
        seen = (version, _layout(value), _checksum(value), _hash(value))
        self._watched[id(tensor)] = _Watched(weakref.ref(tensor), entry, *seen)


@dataclass(slots=True)
class _Watched:
    tensor: weakref.ref[Tensor]
    entry: BaseTensor
    version: int
    layout: tuple[torch.Size, torch.dtype]
    checksum: int
    sha256: str

    def is_unchanged(self, tensor: Tensor) -> bool:
        if _layout(tensor) != self.layout:
            return False
        # The fused optimizers of torch, and writes to `.data`, do not count: hence the checksum.
        if tensor._version == self.version:
            return _checksum(tensor) == self.checksum
        if _hash(tensor) != self.sha256:
            return False
        self.version = tensor._version
        return True


@dataclass(frozen=True, slots=True)
class _Added:
    name: str
    tensor: Tensor
    version: int
    copy: Tensor


_BASE: ContextVar[FrozenBase | NotInBase] = ContextVar("frozen base", default=NotInBase())  # noqa: B039


def place_frozen(name: str, tensor: Tensor) -> BaseTensor | NotInBase:
    """Where the base in use holds the value of a frozen tensor, if one is in use."""
    base = _BASE.get()
    return base.place(name, tensor) if isinstance(base, FrozenBase) else NotInBase()


def _is_plain(tensor: Tensor) -> bool:
    """Shards of a distributed tensor are not whole, and stay in the checkpoint."""
    return type(tensor.detach()) is Tensor


def _bytes_of(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def _layout(tensor: Tensor) -> tuple[torch.Size, torch.dtype]:
    return tensor.shape, tensor.dtype


def _checksum(tensor: Tensor) -> int:
    """Sum of the tensor's 8-byte words, each times a factor of its place, modulo 2 ** 64: another
    order has another sum. Zeros are added to the last word.

    The upper half of a word is added to it first: small whole numbers end, as float64, in 32 zeros
    or more, which products modulo 2 ** 64 would lose.
    """
    found = _bytes_of(tensor)
    factors = _factors(min(-(-found.numel() // 8), _WORDS_AT_ONCE), found.device)
    total = torch.zeros((), dtype=torch.int64, device=found.device)
    for start in range(0, found.numel(), 8 * _WORDS_AT_ONCE):
        some = found[start : start + 8 * _WORDS_AT_ONCE]
        if some.numel() % 8 or some.storage_offset() % 8:
            some = pad(some, (0, -some.numel() % 8))  # A copy, which starts at a word.
        words = some.view(torch.int64)
        weighted = (words >> 32).add_(words).mul_(factors[: len(words)])
        total = total * _GOLDEN + weighted.sum()
    return int(total.item())


def _factors(count: int, device: torch.device) -> Tensor:
    """Odd factors of places, SplitMix64 of 1, 2 and so on: [count], int64. Its shifts keep the
    sign, which does no harm here."""
    found = torch.arange(1, count + 1, device=device) * _GOLDEN
    found = ((found >> 30) ^ found) * _MIX_1
    found = ((found >> 27) ^ found) * _MIX_2
    return ((found >> 31) ^ found) | 1


def _hash(tensor: Tensor) -> str:
    return hashlib.sha256(_bytes_of(tensor).cpu().numpy().data).hexdigest()
