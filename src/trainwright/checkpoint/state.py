"""What is kept of a run: copies of tensors and plain values, and who can give and take them."""

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
    """Named tensors and JSON values, copied from whoever they belong to.

    Nothing in it is live: training on changes none of it. Values are what JSON has, and numbers
    that are not finite; tuples become lists. Tensors are on the CPU, contiguous.

    `updated` names the tensors that nothing but an update of the weights changes. A store may copy
    those while the training goes on; they are complete before the next update.
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
        """Take over tensors that nobody else holds, without a copy."""
        snapshot = cls(values=values)
        snapshot._tensors = MappingProxyType(dict(tensors))
        return snapshot

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """The tensors by name; not to be written to."""
        return self._tensors

    @property
    def values(self) -> Json:
        """A fresh copy of the values."""
        return unpack(self._values)

    @property
    def packed_values(self) -> Json:
        """The values as strict JSON; not to be written to."""
        return self._values

    @property
    def size_bytes(self) -> int:
        """Bytes of the tensors."""
        return sum(tensor.nbytes for tensor in self._tensors.values())


@runtime_checkable
class Stateful(Protocol):
    """Something that must be as it was for a run to go on.

    `snapshot` must hand out copies. `restore` must bring back exactly that state, must not keep the
    tensors it is given, and must refuse a snapshot of something else with a `Mistake`, before it
    has changed anything.
    """

    def snapshot(self) -> Snapshot:
        """The whole state, now."""
        ...

    def restore(self, snapshot: Snapshot) -> None:
        """Make the state what it was."""
        ...


@runtime_checkable
class KeptOnRollback(Protocol):
    """State that a rollback leaves alone: what was spent, and what adapts by itself. All other
    state is that of the checkpoint afterwards."""

    on_rollback: ClassVar[Literal["keep"]]


def merge_state(*groups: Mapping[str, Stateful]) -> dict[str, Stateful]:
    """The state of several groups by name.

    Raises:
        AssertionError: two parts have one name, so that a checkpoint would hold only one of them.
    """
    merged: dict[str, Stateful] = {}
    for group in groups:
        doubles = merged.keys() & group.keys()
        assert not doubles, f"two parts of the state are called {', '.join(sorted(doubles))}"
        merged.update(group)
    return merged
