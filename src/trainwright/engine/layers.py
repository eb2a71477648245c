"""Norms of weights, updates and gradients, layer group by layer group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import final

import torch
from torch import Tensor, nn

from trainwright.data.feed import StepBatches
from trainwright.engine.windows import Window
from trainwright.tracking.events import Number

_DEPTH = 2


def group_of(parameter: str) -> str:
    """The layer group of a parameter: the first two parts of its module's path.

    `blocks.0.attended.weight` belongs to `blocks.0`, `head.weight` to `head`; a parameter of the
    model itself belongs to its own name.
    """
    module, _, own = parameter.rpartition(".")
    return ".".join(module.split(".")[:_DEPTH]) if module else own


@final
class LayerNorms:
    """A probe and gauge: for each layer group the L2 norms of a step.

    `weight_norm/<group>` is |w| after the step, `update_ratio/<group>` is |w after - w before| / |w
    after|, `gradient_norm/<group>` that of the gradient before clipping (where clipping changed the
    direction too, its share of the clipped one). Healthy updates are about a thousandth of the
    weights (Karpathy 2022, "Neural networks: zero to hero", lecture 4: log10 about -3).

    It costs a copy of the trained weights for the time of one step, and four passes over them.
    """

    def __init__(self, model: nn.Module) -> None:
        self._named = list(model.named_parameters())
        self._groups: list[str] = []
        self._members = torch.zeros(0, 0)
        self._trained: list[str] = []
        self._measured = torch.zeros(0, 3)

    @contextmanager
    def measuring(self, work: StepBatches) -> Iterator[None]:  # noqa: ARG002
        """Copy the trained weights, and compare when the step is made."""
        trained = [(name, p) for name, p in self._named if p.requires_grad]
        weights = [parameter.detach() for _, parameter in trained]
        changes = [weight.clone() for weight in weights]
        yield
        torch._foreach_sub_(changes, weights)
        absent = torch.zeros((), device=weights[0].device)
        gradients = [absent if p.grad is None else p.grad for _, p in trained]
        norms = [torch._foreach_norm(each) for each in (weights, changes, gradients)]
        columns = torch.stack([torch.stack(column) for column in norms], dim=1).double()
        self._assign([name for name, _ in trained], columns.device)
        # Double precision: in fp32 the products could be rounded to TensorFloat-32.
        self._measured = (self._members @ columns.square()).sqrt()

    def read(self, window: Window) -> Mapping[str, Number]:
        """The norms of the measured step, by group."""
        weights, updates, gradients = self._measured.unbind(dim=1)
        tiny = torch.finfo(torch.float32).tiny
        total = torch.linalg.vector_norm(gradients).clamp_min(tiny)
        before_clipping = gradients / total * window.steps[-1].gradient_norm
        named = {
            "weight_norm": weights,
            "update_ratio": updates / weights.clamp_min(tiny),
            "gradient_norm": before_clipping,
        }
        return {
            f"{what}/{group}": value
            for what, values in named.items()
            for group, value in zip(self._groups, values.unbind(), strict=True)
        }

    def _assign(self, trained: Sequence[str], device: torch.device) -> None:
        """Which group each of the trained parameters belongs to; they change as layers thaw."""
        if trained == self._trained:
            return
        self._trained = list(trained)
        groups = [group_of(name) for name in trained]
        self._groups = list(dict.fromkeys(groups))
        rows: list[Tensor] = [
            torch.tensor([float(group == one) for one in groups], dtype=torch.float64)
            for group in self._groups
        ]
        self._members = torch.stack(rows).to(device)
