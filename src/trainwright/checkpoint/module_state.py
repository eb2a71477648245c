"""State of a torch module: parameters and buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor, nn

from trainwright.checkpoint.mismatch import check_same_layout, check_same_names
from trainwright.checkpoint.state import Snapshot


@final
class ModuleState:
    """Parameters and persistent buffers by name. Tied tensors are stored once.

    Restoring writes into the module's own tensors, so ties and the optimizer's references to the
    parameters are preserved.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    @property
    def module(self) -> nn.Module:
        """The module."""
        return self._module

    def snapshot(self) -> Snapshot:
        """Copy of every tensor; `tied` names the first name of each repeated one. Forward passes
        change buffers, but no parameters."""
        return self.snapshot_with({})

    def snapshot_with(self, others: Mapping[str, Tensor]) -> Snapshot:
        """The same with other values for the named tensors, which only an update changes."""
        first, tied = _first_names(self._named())
        parameters = {name for name, tensor in first.items() if isinstance(tensor, nn.Parameter)}
        tensors = {name: others.get(name, tensor) for name, tensor in first.items()}
        return Snapshot(tensors=tensors, values={"tied": tied}, updated={*parameters, *others})

    def snapshot_at_once(self) -> Snapshot:
        """The same for a caller that changes the parameters immediately afterwards."""
        first, tied = _first_names(self._named())
        return Snapshot(tensors=first, values={"tied": tied})

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the tensors.

        Raises:
            Mistake: names, shapes, dtypes or ties differ from the module's; nothing has changed.
        """
        first, tied = _first_names(self._named())
        found = snapshot.values["tied"]
        for name, other in found.items():
            # Older versions treated names that share memory as tied as well.
            if name in first and other in first and _share_memory(first[name], first[other]):
                del first[name]
                tied[name] = other
        check_same_layout("model", first, snapshot.tensors)
        check_same_names(
            "model",
            (f"{a} = {b}" for a, b in tied.items()),
            (f"{a} = {b}" for a, b in found.items()),
        )
        with torch.no_grad():
            for name, tensor in first.items():
                tensor.copy_(snapshot.tensors[name])

    def _named(self) -> dict[str, Tensor]:
        named = self._module.state_dict(keep_vars=True)
        for name, tensor in named.items():
            if not isinstance(tensor, Tensor):
                raise TypeError(f"{name} is extra state that is not a tensor and cannot be kept")
        return dict(named)


def _first_names(named: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Distinct tensors under their first names, and the first name of every repeated one. Names are
    tied if they refer to one tensor object: memory addresses are meaningless for sharded
    tensors."""
    seen: dict[int, str] = {}
    first: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    for name, tensor in named.items():
        if tensor.numel() and id(tensor) in seen:
            tied[name] = seen[id(tensor)]
        else:
            seen[id(tensor)] = name
            first[name] = tensor
    return first, tied


def _share_memory(one: Tensor, other: Tensor) -> bool:
    """Do two tensors share all of their memory? Shards have no address, and never do."""
    address = one.data_ptr()
    same = address == other.data_ptr() and one.device == other.device
    layout = (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())
    return address != 0 and same and layout
