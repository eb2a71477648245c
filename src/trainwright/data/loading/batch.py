"""Batches: named tensors with their row numbers and a mask of the targets. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import Any, Literal, NamedTuple, Self, final, overload

import numpy as np
import torch
from torch import Tensor

from trainwright.core.errors import Mistake, Problem
from trainwright.data.base.counter_rng import Positions

TARGETS = ("target", "targets", "labels", "label", "y")
"""Names that are taken for the target where none is given, the first that is there."""

NO_ROWS: Positions = np.zeros(0, dtype=np.int64)
"""Row numbers of a batch from a source that has none."""

NO_MASK: Literal["all"] = "all"


@final
@dataclass(frozen=True, slots=True)
class TargetMask:
    """Which targets count: bool, in the target's shape, on the target's device as `tensor` and in
    host memory as `host`, so that counting them needs no synchronisation."""

    tensor: Tensor
    host: Tensor

    @staticmethod
    def of(host: Tensor, device: torch.device) -> TargetMask:
        """A mask in host memory, for targets on a device."""
        return TargetMask(host.to(device, non_blocking=True), host)

    @property
    def targets(self) -> int:
        """Targets that count."""
        return int(self.host.sum())

    def apply(self, change: Callable[[Tensor], Tensor]) -> TargetMask:
        """The mask of targets that were changed in this way, each part where it was."""
        tensor = change(self.tensor)
        return TargetMask(tensor, tensor if self.host is self.tensor else change(self.host))

    def move(self, send: Callable[[Tensor], Tensor]) -> TargetMask:
        """The mask of targets that were sent to a device; the host part is a copy."""
        tensor = send(self.tensor)
        return TargetMask(tensor, tensor if tensor.device.type == "cpu" else self.host.clone())

    def reshape(self, *shape: int) -> TargetMask:
        """The mask of targets of another shape."""
        return TargetMask(self.tensor.reshape(*shape), self.host.reshape(*shape))


class _Layout(NamedTuple):
    """Names of the tensors, the position of the target (the number of tensors if there is none),
    and the names of the others."""

    names: tuple[str, ...]
    target: int
    inputs: tuple[str, ...]


@lru_cache(maxsize=256)
def _layout(names: tuple[str, ...], target: str) -> _Layout:
    at = names.index(target) if target else len(names)
    return _Layout(names, at, names[:at] + names[at + 1 :])


@lru_cache(maxsize=64)
def name_positions(count: int) -> tuple[str, ...]:
    """Names of `count` tensors without names, by position: the last of several is the target."""
    inputs = tuple(f"input_{at}" if at else "input" for at in range(max(1, count - 1)))
    return inputs if count < 2 else (*inputs, "target")


@final
class Batch:
    """Aligned tensors of a micro-batch, with names: a frozen mapping that unpacks as the tuple of
    its tensors.

    `batch["tokens"]` takes a tensor by its name, `model(**batch)` passes all by name; `x, y =
    batch` and `batch[0]` take them in order. The first axis is rows.

    Args:
        tensors: by name, in order.
        target: name of the target; by default the first of `TARGETS` that is there.
        rows: numbers of the rows in their dataset, int64 [B]; empty if they have none.
        mask: bool, in the target's shape: the targets that count. Without it all do.
    """

    __slots__ = ("_layout", "_mask", "_rows", "_tensors")

    _layout: _Layout
    _tensors: tuple[Tensor, ...]
    _rows: Positions
    _mask: TargetMask | Literal["all"]

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        *,
        target: str = "",
        rows: Positions = NO_ROWS,
        mask: Tensor | TargetMask | Literal["all"] = NO_MASK,
    ) -> None:
        names = tuple(tensors)
        if target and target not in names:
            raise _no_such_tensor(target, names)
        found = target or next((name for name in TARGETS if name in names), "")
        self._layout = _layout(names, found)
        self._tensors = tuple(tensors.values())
        self._rows = rows
        if isinstance(mask, Tensor):
            mask = self._checked(mask, found)
        self._mask = mask

    def _checked(self, mask: Tensor, target: str) -> TargetMask:
        """The mask of a target, counted on the host once."""
        shape = self[target].shape if target else None
        if mask.dtype != torch.bool or mask.shape != shape:
            raise _no_mask(mask, target, shape)
        return TargetMask(mask.to(self[target].device), mask.cpu())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tensors, in order."""
        return self._layout.names

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """All tensors but the target, in order."""
        at = self._layout.target
        return self._tensors[:at] + self._tensors[at + 1 :]

    @property
    def target(self) -> Tensor:
        """The target.

        Raises:
            Mistake: no tensor is the target.
        """
        layout = self._layout
        if layout.target == len(layout.names):
            raise _no_target(layout.names)
        return self._tensors[layout.target]

    def supervised(
        self,
    ) -> tuple[tuple[str, ...], tuple[Tensor, ...], Tensor, TargetMask | Literal["all"]]:
        """Names of the inputs, inputs, target and mask, at once.

        Raises:
            Mistake: no tensor is the target.
        """
        names, at, inputs = self._layout
        tensors = self._tensors
        if at == len(names):
            raise _no_target(names)
        others = tensors[:at] if at == len(inputs) else tensors[:at] + tensors[at + 1 :]
        return inputs, others, tensors[at], self._mask

    @property
    def target_name(self) -> str:
        """Name of the target; empty if there is none."""
        return "".join(self._layout.names[self._layout.target : self._layout.target + 1])

    @property
    def rows(self) -> Positions:
        """Numbers of the rows in their dataset, int64 [B]; empty if they have none."""
        return self._rows

    @property
    def mask(self) -> TargetMask | Literal["all"]:
        """Targets that count."""
        return self._mask

    def keys(self) -> tuple[str, ...]:
        """Names of the tensors, in order."""
        return self._layout.names

    def values(self) -> tuple[Tensor, ...]:
        """The tensors, in order."""
        return self._tensors

    def items(self) -> Iterator[tuple[str, Tensor]]:
        """Names and tensors, in order."""
        return zip(self._layout.names, self._tensors, strict=True)

    def __len__(self) -> int:
        return len(self._tensors)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self._tensors)

    def __contains__(self, name: object) -> bool:
        return name in self._layout.names

    @overload
    def __getitem__(self, key: str | int) -> Tensor: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Tensor, ...]: ...
    def __getitem__(self, key: str | int | slice) -> Tensor | tuple[Tensor, ...]:
        if not isinstance(key, str):
            return self._tensors[key]
        if key not in self._layout.names:
            raise KeyError(f"{key!r}: the batch has {', '.join(self._layout.names)}")
        return self._tensors[self._layout.names.index(key)]

    def __getattr__(self, name: str) -> Tensor:
        """A tensor by its name, as of a named tuple; what a batch has itself goes before."""
        if name.startswith("_") or name not in self._layout.names:
            raise AttributeError(f"a batch has no tensor {name!r}")
        return self[name]

    def __repr__(self) -> str:
        parts = (f"{name}: {_shown(tensor)}" for name, tensor in self.items())
        masked = "" if isinstance(self._mask, str) else f", {self._mask.targets} targets count"
        return f"Batch({', '.join(parts)}{masked})"

    def with_rows(self, rows: Positions) -> Self:
        """The batch with these row numbers."""
        return self._like(self._tensors, rows, self._mask)

    def with_mask(self, host: Tensor) -> Self:
        """The batch with a mask of its targets, bool in host memory, in the target's shape; a mask
        that it has is narrowed."""
        if not isinstance(self._mask, str):
            host = host & self._mask.host
        return self._like(self._tensors, self._rows, TargetMask.of(host, self.target.device))

    def with_tensors(self, **tensors: Tensor) -> Self:
        """The batch with some of its tensors replaced."""
        changed = tuple(tensors.get(name, old) for name, old in self.items())
        return self._like(changed, self._rows, self._mask)

    def apply(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The batch with each tensor and its mask changed, on the same device: a copy, or some of
        the rows."""
        mask = self._mask if isinstance(self._mask, str) else self._mask.apply(change)
        return self._like(tuple(map(change, self._tensors)), self._rows, mask)

    def move(self, send: Callable[[Tensor], Tensor]) -> Self:
        """The batch with each tensor and its mask sent to a device."""
        mask = self._mask if isinstance(self._mask, str) else self._mask.move(send)
        return self._like(tuple(map(send, self._tensors)), self._rows, mask)

    def reshape(self, *shape: int) -> Self:
        """The batch with tensors of another shape, as of windows that are cut; the new rows have
        no numbers."""
        mask = self._mask if isinstance(self._mask, str) else self._mask.reshape(*shape)
        return self._like(tuple(one.reshape(*shape) for one in self._tensors), NO_ROWS, mask)

    def split(self, sizes: list[int]) -> list[Batch]:
        """Consecutive batches of so many rows each, as views."""
        parts = zip(*(torch.split(one, sizes) for one in self._tensors), strict=True)
        masks: Iterable[TargetMask | Literal["all"]] = repeat(NO_MASK, len(sizes))
        if isinstance(self._mask, TargetMask):
            both = (self._mask.tensor, self._mask.host)
            masks = map(TargetMask, *(torch.split(one, sizes) for one in both))
        layout, rows, start = self._layout, self._rows, 0
        batches: list[Batch] = []
        for part, mask, size in zip(parts, masks, sizes, strict=True):
            # As `_like`: a call for each micro-batch would be a third of what it costs.
            made = object.__new__(Batch)
            made._layout = layout
            made._tensors = part
            made._rows = rows[start : start + size]
            made._mask = mask
            start += size
            batches.append(made)
        return batches

    def _like(
        self, tensors: tuple[Tensor, ...], rows: Positions, mask: TargetMask | Literal["all"]
    ) -> Self:
        """Other tensors of the same names."""
        made = object.__new__(type(self))
        made._layout = self._layout
        made._tensors = tensors
        made._rows = rows
        made._mask = mask
        return made


def row_targets(batch: Batch) -> int:
    """Targets of a micro-batch with one for each row: the rows, or those that are not masked."""
    return len(batch[0]) if isinstance(batch.mask, str) else batch.mask.targets


def element_targets(batch: Batch) -> int:
    """Targets of a micro-batch with any number for each row, without those that are masked."""
    return batch.target.numel() if isinstance(batch.mask, str) else batch.mask.targets


def as_batch(given: Any, *, target: str = "", mask: str = "") -> Batch:
    """Name the tensors of a batch.

    A mapping and a named tuple have names; of another tuple or a list the last of several tensors
    is `target`, and the others are `input`, `input_1` and so on, which a model takes by position.

    Args:
        target: name of the target in a mapping; by default the first of `TARGETS`.
        mask: name of the tensor that is the mask of the targets, and no input; empty for none.

    Raises:
        Mistake: it is none of these, or lacks a tensor that is named.
    """
    if isinstance(given, Batch):
        return given
    if isinstance(given, tuple | list):
        names = getattr(given, "_fields", name_positions(len(given)))
        given = dict(zip(names, given, strict=True))
    if not isinstance(given, Mapping):
        raise _no_batch(given)
    tensors = {str(name): tensor for name, tensor in given.items()}
    if not mask:
        return Batch(tensors, target=target)
    if mask not in tensors:
        raise _no_such_tensor(mask, tuple(tensors))
    where = tensors.pop(mask)
    return Batch(tensors, target=target, mask=where.bool())


def _shown(value: object) -> str:
    if not isinstance(value, Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"


def _no_batch(given: object) -> Mistake:
    return Mistake(
        Problem(
            "a batch needs tensors with names or in order",
            found=type(given).__name__,
            expected="a mapping of names to tensors, or a tuple of tensors",
            fix='tw.Batch({"input": x, "target": y}), or the tuple (x, y)',
        )
    )


def _no_such_tensor(name: str, names: Sequence[str]) -> Mistake:
    return Mistake(
        Problem(
            f"the batch has no tensor {name!r}",
            found=f"{', '.join(names) or 'no tensor'}",
            fix="name one of them",
        )
    )


def _no_target(names: Sequence[str]) -> Mistake:
    return Mistake(
        Problem(
            "the batch has no target",
            found=f"{', '.join(names) or 'no tensor'}",
            expected=f"a tensor named {', '.join(TARGETS[:-1])} or {TARGETS[-1]}, or a name",
            fix='name it: tw.Batch(tensors, target="..."), tw.LoaderFeed(loader, target="...")',
        )
    )


def _no_mask(mask: Tensor, target: str, shape: object) -> Mistake:
    expected = f"bool {list(shape)}" if isinstance(shape, torch.Size) else "a batch with a target"
    return Mistake(
        Problem(
            "the mask of the targets does not fit the target",
            found=_shown(mask),
            expected=f"{expected}, as {target!r}" if target else expected,
            fix="a mask says of each target whether it counts: mask = weights > 0",
        )
    )
