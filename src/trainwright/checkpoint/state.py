"""State of a run: copies of tensors and plain values, and the protocol of their owners."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal, Protocol, Self, final, runtime_checkable

from torch import Tensor

from trainwright.checkpoint.frozen_weights import BaseTensor, NotInBase, place_frozen
from trainwright.checkpoint.snapshot_buffers import copy_of, later_copy_of
from trainwright.checkpoint.strict_json import pack, unpack
from trainwright.core.files import Json
from trainwright.distributed.tensor_shards import Place, is_sharded, local_of, place_of

_NO_TENSORS: Mapping[str, Tensor] = MappingProxyType({})
_NOT_FROZEN: Mapping[str, BaseTensor] = MappingProxyType({})
_WHOLE: Mapping[str, Place] = MappingProxyType({})

Adopt = Callable[[Tensor, BaseTensor, Tensor], object]
"""Receives a tensor, where a base holds its value, and the value."""


@final
class Snapshot:
    """Named tensors and JSON values, copied from their owner.

    Nothing in it is live: further training does not change it. Values are JSON plus non-finite
    numbers; tuples become lists. Tensors are on the CPU, contiguous.

    `updated` names the tensors that only an update of the weights changes. A store may copy those
    while training continues; they are complete before the next update.

    `frozen` names tensors that training does not change, each with the tensor whose value it has.
    A store that holds the value already gets a reference to it (`in_base`) in place of a copy.

    Of a tensor that is distributed over ranks it holds this rank's shard; `shards` says where that
    lies.
    """

    __slots__ = ("_adopt", "_in_base", "_shards", "_tensors", "_values")

    def __init__(
        self,
        *,
        tensors: Mapping[str, Tensor] = _NO_TENSORS,
        values: Json = None,
        updated: Collection[str] = (),
        frozen: Mapping[str, Tensor] = _NO_TENSORS,
    ) -> None:
        places = {name: place_frozen(name, one) for name, one in frozen.items() if name in tensors}
        in_base = {name: at for name, at in places.items() if not isinstance(at, NotInBase)}
        copies = {
            name: later_copy_of(name, one) if name in updated else copy_of(one)
            for name, one in ((name, local_of(tensor)) for name, tensor in tensors.items())
            if name not in in_base
        }
        shards = {name: place_of(one) for name, one in tensors.items() if is_sharded(one)}
        self._shards = MappingProxyType(shards) if shards else _WHOLE
        self._tensors = MappingProxyType(copies)
        self._in_base = MappingProxyType(in_base) if in_base else _NOT_FROZEN
        self._adopt: tuple[Mapping[str, BaseTensor], Adopt] = (_NOT_FROZEN, _adopt_nothing)
        self._values = pack(values)

    @classmethod
    def owning(
        cls,
        tensors: Mapping[str, Tensor],
        values: Json,
        restored: Mapping[str, BaseTensor] = _NOT_FROZEN,
        adopt: Adopt | None = None,
    ) -> Self:
        """Take ownership of tensors that nothing else references, without a copy; `restored` are
        those that came from a base, which `adopt_frozen` reports to `adopt`."""
        snapshot = cls(values=values)
        snapshot._tensors = MappingProxyType(dict(tensors))
        snapshot._adopt = (restored, adopt or _adopt_nothing)
        return snapshot

    @property
    def in_base(self) -> Mapping[str, BaseTensor]:
        """Names that are not among the tensors, because a base holds their values."""
        return self._in_base

    def adopt_frozen(self, restored: Mapping[str, Tensor]) -> None:
        """Report the tensors that were restored, so that a later snapshot need not copy those that
        are still frozen and unchanged."""
        entries, adopt = self._adopt
        for name, entry in entries.items():
            if name in restored:
                adopt(restored[name], entry, self._tensors[name])

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """Tensors by name; read-only."""
        return self._tensors

    @property
    def shards(self) -> Mapping[str, Place]:
        """Where the shards lie, of the tensors of which this rank holds one."""
        return self._shards

    def without_shards(self) -> Snapshot:
        """The same without the tensors of which this rank holds a shard."""
        if not self._shards:
            return self
        whole = copy.copy(self)
        rest = {name: one for name, one in self._tensors.items() if name not in self._shards}
        whole._tensors = MappingProxyType(rest)
        whole._shards = _WHOLE
        return whole

    @property
    def values(self) -> Json:
        """Fresh copy of the values."""
        return unpack(self._values)

    @property
    def packed_values(self) -> Json:
        """Values as strict JSON; read-only."""
        return self._values

    @property
    def size_bytes(self) -> int:
        """Bytes of the tensors."""
        return sum(tensor.nbytes for tensor in self._tensors.values())


def _adopt_nothing(tensor: Tensor, entry: BaseTensor, value: Tensor) -> None:
    """The snapshot is of no store."""


@runtime_checkable
class Stateful(Protocol):
    """Owner of state that must be restored to resume a run.

    `snapshot` must return copies. `restore` must bring back exactly that state, must not keep the
    tensors it is given, and must refuse a snapshot of something else with a `Mistake`, before it
    has changed anything.
    """

    def snapshot(self) -> Snapshot:
        """Current state."""
        ...

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state."""
        ...


@runtime_checkable
class KeptOnRollback(Protocol):
    """State that a rollback does not restore: spent budgets and self-adapting values. All other
    state is reset to the checkpoint."""

    on_rollback: ClassVar[Literal["keep"]]


@final
@dataclass(frozen=True, slots=True)
class StatePart:
    """Part of a run's state: its name in a checkpoint, its owner, and whether a rollback restores
    it."""

    name: str
    stateful: Stateful
    on_rollback: Literal["restore", "keep"]

    @classmethod
    def of(cls, name: str, stateful: Stateful) -> Self:
        """A part whose class says what a rollback does; see `KeptOnRollback`."""
        kept = isinstance(stateful, KeptOnRollback)
        return cls(name, stateful, "keep" if kept else "restore")


@final
class StateParts(Mapping[str, Stateful]):
    """All parts of a run's state, by name.

    Raises:
        AssertionError: two parts have the same name, so that a checkpoint would contain only one of
            them.
    """

    def __init__(self, parts: Iterable[StatePart]) -> None:
        self.parts = tuple(parts)
        self._by_name = {part.name: part.stateful for part in self.parts}
        names = [part.name for part in self.parts]
        doubles = sorted({name for name in names if names.count(name) > 1})
        assert not doubles, f"two parts of the state are called {', '.join(doubles)}"

    @classmethod
    def of(cls, state: Mapping[str, Stateful]) -> StateParts:
        """The parts of a job's state."""
        if isinstance(state, StateParts):
            return state
        return cls(StatePart.of(name, stateful) for name, stateful in state.items())

    def __getitem__(self, name: str) -> Stateful:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


def merge_state(*groups: Mapping[str, Stateful]) -> StateParts:
    """Parts of several groups in one collection, which refuses doubles."""
    return StateParts(part for group in groups for part in StateParts.of(group).parts)
