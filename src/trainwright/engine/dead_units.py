"""Units of a network that learn nothing, seen from their gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import final

import torch
from torch import Tensor, nn

from trainwright.checkpoint.state import Snapshot
from trainwright.data.loading.feed import StepBatches
from trainwright.engine.layer_norm_signals import group_of
from trainwright.engine.telemetry import Window
from trainwright.tracking.events import Number

_IN_A_ROW = 3
_UNITS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


@final
class DeadUnits:
    """A probe and gauge: `dead_share/<group>`, the share of dead units in the worst layer of each
    group, from 0 to 1.

    A unit is an output of a linear layer or a channel of a convolution. It is dead if neither a
    weight nor the bias of it had any gradient in the last three measured steps: what follows it,
    most often a ReLU, passes nothing on for any row (gradients that are exactly 0, as AUTOTRAINER
    counts them: Zhang et al. 2021, ICSE, section III). The bias tells a layer whose units are dead
    from the one after it, whose weights have no gradient either, since nothing but zeros come in.
    Before the third measured step, and for frozen layers, it is 0.

    Unlike a look at activations it needs no hooks: one pass over the gradients of a step. Its state
    is for how many measured steps each unit has had no gradient.
    """

    def __init__(self, model: nn.Module) -> None:
        self._layers = [
            (f"{path}.weight" if path else "weight", module)
            for path, module in model.named_modules()
            if isinstance(module, _UNITS)
        ]
        self._silent = {
            name: torch.zeros(len(layer.weight), dtype=torch.int32, device=layer.weight.device)
            for name, layer in self._layers
        }

    @contextmanager
    def measuring(self, work: StepBatches) -> Iterator[None]:  # noqa: ARG002
        """Look at the gradients when the step is made."""
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
        """The shares now."""
        shares: dict[str, Number] = {}
        by_group: dict[str, list[Tensor]] = {}
        for name, silent in self._silent.items():
            share = (silent >= _IN_A_ROW).double().mean()
            by_group.setdefault(group_of(name), []).append(share)
        for group, layers in by_group.items():
            shares[f"dead_share/{group}"] = torch.stack(layers).amax()
        return shares

    def snapshot(self) -> Snapshot:
        """The measured steps without gradient of each unit."""
        return Snapshot(tensors=self._silent)

    def restore(self, snapshot: Snapshot) -> None:
        """Count on from there."""
        for name, silent in self._silent.items():
            silent.copy_(snapshot.tensors[name])
