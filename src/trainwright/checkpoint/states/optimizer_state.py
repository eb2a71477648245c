"""State of a torch optimizer, keyed by parameter names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor

from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.states.module_state import check_same_names
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json
from trainwright.distributed.tensor_shards import in_own_order, whole_of_parts, write_into
from trainwright.optim.optimizer_protocol import Optimizer

_OPTION = "option"
_STATE = "state"


@final
class OptimizerState:
    """Moments, counters and hyperparameters of an optimizer.

    Keyed by parameter name, so that a different order of the parameters cannot mix them up.
    Existing tensors are overwritten in place, missing ones are created; nothing of a snapshot is
    shared with the optimizer.

    Args:
        optimizer: with all of its parameter groups.
        named_parameters: of the model, `model.named_parameters()`; must include each of the
            optimizer's parameters.
    """

    def __init__(
        self, optimizer: Optimizer, named_parameters: Iterable[tuple[str, Tensor]]
    ) -> None:
        self._optimizer = optimizer
        self._names = {id(parameter): name for name, parameter in named_parameters}
        for index, group in enumerate(optimizer.param_groups):
            for parameter in group["params"]:
                if id(parameter) not in self._names:
                    raise _unnamed(index, parameter)

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer."""
        return self._optimizer

    def parameters(self) -> list[tuple[str, Tensor]]:
        """Names and parameters that the optimizer trains."""
        groups = self._optimizer.param_groups
        return [(self._names[id(one)], one) for group in groups for one in group["params"]]

    def snapshot(self) -> Snapshot:
        """Tensors as `state/<parameter>/<key>`, everything else as values."""
        tensors: dict[str, Tensor] = {}
        groups: list[Json] = []
        numbers: dict[str, Json] = {}
        for index, group in enumerate(self._optimizer.param_groups):
            options: dict[str, Json] = {}
            for key, value in group.items():
                if isinstance(value, Tensor):
                    tensors[f"{_OPTION}/{index}/{key}"] = value
                elif key not in ("params", "param_names"):
                    options[key] = value
            groups.append({"names": self._names_of(group), "options": options})
            for parameter in group["params"]:
                name = self._names[id(parameter)]
                for key, value in self._optimizer.state.get(parameter, {}).items():
                    if isinstance(value, Tensor):
                        tensors[f"{_STATE}/{name}/{key}"] = whole_of_parts(value, parameter)
                    else:
                        numbers.setdefault(name, {})[key] = value
        updated = {path for path in tensors if path.startswith(f"{_STATE}/")}
        values = {"groups": groups, "numbers": numbers}
        return Snapshot(tensors=tensors, values=values, updated=updated)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state.

        Raises:
            Mistake: the optimizer has other groups; nothing has changed.
        """
        values = snapshot.values
        groups = self._optimizer.param_groups
        self._check_groups(values["groups"])
        by_name: dict[str, dict[str, Any]] = {
            self._names[id(p)]: dict(values["numbers"].get(self._names[id(p)], {}))
            for group in groups
            for p in group["params"]
        }
        for path, tensor in snapshot.tensors.items():
            kind, _, rest = path.partition("/")
            owner, _, key = rest.rpartition("/")
            if kind == _OPTION:
                groups[int(owner)][key] = _into(groups[int(owner)][key], tensor, tensor)
            else:
                by_name[owner][key] = tensor
        for group, saved in zip(groups, values["groups"], strict=True):
            for key, option in saved["options"].items():
                group[key] = tuple(option) if isinstance(group.get(key), tuple) else option
            on_device = bool(group.get("fused") or group.get("capturable"))
            for parameter in group["params"]:
                self._restore_one(parameter, by_name[self._names[id(parameter)]], on_device)

    def _restore_one(self, parameter: Tensor, saved: dict[str, Any], on_device: bool) -> None:
        if not saved:
            self._optimizer.state.pop(parameter, None)
            return
        live = self._optimizer.state[parameter]
        for key in set(live) - set(saved):
            del live[key]
        for key, value in saved.items():
            if not isinstance(value, Tensor):
                live[key] = value
            elif isinstance(live.get(key), Tensor) and live[key].shape == value.shape:
                live[key] = _into(live[key], value, parameter)
            elif value.shape == parameter.shape:
                made = torch.empty_like(parameter, dtype=value.dtype, requires_grad=False)
                write_into(made, in_own_order(value, parameter))
                live[key] = made
            else:
                # Counters stay on the host unless the kernel reads them on the device; factors and
                # scales whose shape is not the parameter's are on the device of the kernel too.
                with_it = on_device or value.ndim > 0
                live[key] = value.to(parameter.device if with_it else "cpu", copy=True)

    def _check_groups(self, saved: Json) -> None:
        names = [self._names_of(group) for group in self._optimizer.param_groups]
        check_same_names(
            "optimizer",
            (f"{name} in group {index}" for index, group in enumerate(names) for name in group),
            (f"{name} in group {index}" for index, g in enumerate(saved) for name in g["names"]),
        )

    def _names_of(self, group: dict[str, Any]) -> list[str]:
        return [self._names[id(parameter)] for parameter in group["params"]]


def _unnamed(group: int, parameter: Tensor) -> Mistake:
    return Mistake(
        Problem(
            "the optimizer trains a parameter that has no name here",
            path="tw.OptimizerState",
            found=f"one of shape {list(parameter.shape)} in group {group}",
            expected="the name of each parameter that the optimizer trains",
            fix="name those outside of the model too: tw.OptimizerState(optimizer, "
            '[*model.named_parameters(), ("temperature", temperature)])',
        )
    )


def _into(live: Any, value: Tensor, parameter: Tensor) -> Tensor:
    if isinstance(live, Tensor) and live.dtype == value.dtype and live.shape == value.shape:
        write_into(live, in_own_order(value, parameter))
        return live
    return value.clone()
