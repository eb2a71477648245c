"""State of a run: copies of tensors and plain values, and the protocol of their owners."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import ClassVar, Literal, Protocol, Self, final, runtime_checkable

from torch import Tensor

from trainwright.checkpoint.snapshot_buffers import copy_of, later_copy_of
from trainwright.checkpoint.strict_json import pack, unpack
from trainwright.core.files import Json

_NO_TENSORS: Mapping[str, Tensor] = MappingProxyType({})


@final
class Snapshot:
    """Named tensors and JSON values, copied from their owner.

    Nothing in it is live: further training does not change it. Values are JSON plus non-finite
    numbers; tuples become lists. Tensors are on the CPU, contiguous.

    `updated` names the tensors that only an update of the weights changes. A store may copy those
    while training continues; they are complete before the next update.
    """

    __slots__ = ("_tensors", "_values")

    def __init__(
        self,
        *,
        tensors: Mapping[str, Tensor] = _NO_TENSORS,
        values: Json = None,
        updated: Collection[str] = (),
    ) -> None:
        copies = {
            name: later_copy_of(name, tensor) if name in updated else copy_of(tensor)
            for name, tensor in tensors.items()
        }
        self._tensors = MappingProxyType(copies)
        self._values = pack(values)

    @classmethod
    def owning(cls, tensors: Mapping[str, Tensor], values: Json) -> Self:
        """Take ownership of tensors that nothing else references, without a copy."""
        snapshot = cls(values=values)
        snapshot._tensors = MappingProxyType(dict(tensors))
        return snapshot

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """Tensors by name; read-only."""
        return self._tensors

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


def merge_state(*groups: Mapping[str, Stateful]) -> dict[str, Stateful]:
    """Merge several groups of state by name.

    Raises:
        AssertionError: two parts have the same name, so that a checkpoint would contain only one of
            them.
    """
    merged: dict[str, Stateful] = {}
    for group in groups:
        doubles = merged.keys() & group.keys()
        assert not doubles, f"two parts of the state are called {', '.join(sorted(doubles))}"
        merged.update(group)
    return merged
