"""Dead units, detected from gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import final

import torch
from torch import Tensor, nn

from trainwright.checkpoint.state import Snapshot
from trainwright.data.loading.feed import StepBatches
from trainwright.distributed.tensor_shards import is_sharded
from trainwright.engine.signals.network_inspection import group_of
from trainwright.engine.signals.telemetry import Window
from trainwright.tracking.events import Number

_IN_A_ROW = 3
_UNITS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


@final
class DeadUnits:
    """Probe and gauge `dead_share/<group>`: share of dead units in the worst layer of each group,
    from 0 to 1.

    A unit is an output of a linear layer or a channel of a convolution. It is dead if neither its
    weights nor its bias received a gradient in the last three measured steps: the layer after it,
    usually a ReLU, passes no gradient for any row (gradients that are exactly 0, as counted by
    AUTOTRAINER: Zhang et al. 2021, ICSE, section III). The bias distinguishes a layer with dead
    units from its successor, whose weights have no gradient either because its inputs are all zero.
    Before the third measured step, and for frozen layers, the share is 0. Layers in shards
    are not measured.

    It needs no activation hooks: one pass over the gradients of a step. The state is the number of
    measured steps since each unit last had a gradient.
    """

    def __init__(self, model: nn.Module) -> None:
        self._layers = [
            (f"{path}.weight" if path else "weight", module)
            for path, module in model.named_modules()
            if isinstance(module, _UNITS) and not is_sharded(module.weight)
        ]
        self._silent = {
            name: torch.zeros(len(layer.weight), dtype=torch.int32, device=layer.weight.device)
            for name, layer in self._layers
        }

    @contextmanager
    def measuring(self, work: StepBatches) -> Iterator[None]:  # noqa: ARG002
        """Inspect the gradients after the step."""
        yield
        for name, layer in self._layers:
            weight, bias = layer.weight, layer.bias
            if weight.grad is not None:
                largest = torch.linalg.vector_norm(weight.grad.flatten(1), torch.inf, dim=1)
                if bias is not None and bias.grad is not None:
                    largest = torch.maximum(largest, bias.grad.abs())
                silent = self._silent[name]
                silent.add_(1).mul_(largest == 0)

    def read(self, window: Window) -> Mapping[str, Number]:  # noqa: ARG002
        """Current shares."""
        shares: dict[str, Number] = {}
        by_group: dict[str, list[Tensor]] = {}
        for name, silent in self._silent.items():
            share = (silent >= _IN_A_ROW).double().mean()
            by_group.setdefault(group_of(name), []).append(share)
        for group, layers in by_group.items():
            shares[f"dead_share/{group}"] = torch.stack(layers).amax()
        return shares

    def snapshot(self) -> Snapshot:
        """Measured steps without a gradient, per unit."""
        return Snapshot(tensors=self._silent)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the counts."""
        for name, silent in self._silent.items():
            if name in snapshot.tensors:  # ranks that held shards have not counted
                silent.copy_(snapshot.tensors[name])
