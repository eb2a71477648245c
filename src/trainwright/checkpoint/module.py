"""The state of a torch module: parameters and buffers."""

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

    Restoring writes into the module's own tensors, so ties and an optimizer's view of the
    parameters stay as they are.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    @property
    def module(self) -> nn.Module:
        """The module."""
        return self._module

    def snapshot(self) -> Snapshot:
        """A copy of every tensor; `tied` names the first name of each repeated one. Forward passes
        change buffers, and no parameters."""
        return self.snapshot_with({})

    def snapshot_with(self, others: Mapping[str, Tensor]) -> Snapshot:
        """The same with others in the place of the tensors of these names, which only an update
        changes."""
        first, tied = _first_names(self._named())
        parameters = {name for name, tensor in first.items() if isinstance(tensor, nn.Parameter)}
        tensors = {name: others.get(name, tensor) for name, tensor in first.items()}
        return Snapshot(tensors=tensors, values={"tied": tied}, updated={*parameters, *others})

    def snapshot_at_once(self) -> Snapshot:
        """The same for a caller that changes the parameters as soon as it has it."""
        first, tied = _first_names(self._named())
        return Snapshot(tensors=first, values={"tied": tied})

    def restore(self, snapshot: Snapshot) -> None:
        """Write the tensors back.

        Raises:
            Mistake: of a module with other names, shapes, dtypes or ties; nothing has changed.
        """
        first, tied = _first_names(self._named())
        check_same_layout("model", first, snapshot.tensors)
        found = snapshot.values["tied"]
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
    """Each distinct tensor under its first name, and the first name of every repeated one."""
    seen: dict[tuple[object, ...], str] = {}
    first: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    for name, tensor in named.items():
        key = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if tensor.numel() and key in seen:
            tied[name] = seen[key]
        else:
            seen[key] = name
            first[name] = tensor
    return first, tied
