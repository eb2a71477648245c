"""Per-layer norms of weights, updates and gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import final

import torch
from torch import Tensor, nn

from trainwright.data.loading.feed import StepBatches
from trainwright.distributed.strategy import norms_of
from trainwright.engine.signals.telemetry import Window
from trainwright.tracking.events import Number

_DEPTH = 2
_TINY = torch.finfo(torch.float32).tiny


def group_of(parameter: str) -> str:
    """Layer group of a parameter: the first two parts of its module path.

    `blocks.0.attended.weight` belongs to `blocks.0`, `head.weight` to `head`; a parameter of the
    model itself forms its own group.
    """
    module, _, own = parameter.rpartition(".")
    return ".".join(module.split(".")[:_DEPTH]) if module else own


@final
class LayerNorms:
    """Probe and gauge: L2 norms of a step per layer group.

    `weight_norm/<group>` is |w| after the step, `update_ratio/<group>` is |w after - w before| / |w
    after|, `gradient_norm/<group>` is the norm of the gradient before clipping (if clipping changed
    its direction, the group's share of the clipped one). A healthy update is about a thousandth of
    the weights (Karpathy 2022, "Neural networks: zero to hero", lecture 4: log10 about -3).

    It costs a copy of the trained weights for the duration of one step, and four passes over them.
    """

    def __init__(self, model: nn.Module) -> None:
        self._named = list(model.named_parameters())
        self._trained: list[str] = []
        self._groups: list[str] = []
        self._squares = torch.zeros(3, 0)
        self._members = torch.zeros(0, 0)

    @contextmanager
    def measuring(self, work: StepBatches) -> Iterator[None]:  # noqa: ARG002
        """Copy the trained weights, and compare after the step."""
        trained = [(name, p) for name, p in self._named if p.requires_grad]
        weights = [parameter.detach() for _, parameter in trained]
        changes = [weight.clone() for weight in weights]
        yield
        torch._foreach_sub_(changes, weights)
        absent = torch.zeros((), device=weights[0].device)
        gradients = [absent if p.grad is None else p.grad for _, p in trained]
        norms = [*norms_of(weights), *norms_of(changes), *norms_of(gradients)]
        self._assign([name for name, _ in trained], absent.device)
        # Double precision: in fp32 the products could be rounded to TensorFloat-32.
        squares = torch.stack(norms).double().square()
        self._squares = squares.view(3, len(trained)) @ self._members

    def read(self, window: Window) -> Mapping[str, Number]:
        """Norms of the measured step, by group."""
        before_clipping = window.steps[-1].gradient_norm
        weights, updates, gradients = self._squares.sqrt()
        whole = self._squares[2].sum().sqrt().clamp_min(_TINY)
        columns = {
            "weight_norm": weights,
            "update_ratio": updates / weights.clamp_min(_TINY),
            "gradient_norm": gradients * (before_clipping / whole),
        }
        return {
            f"{what}/{group}": value
            for what, values in columns.items()
            for group, value in zip(self._groups, _scalars(values), strict=True)
        }

    def _assign(self, trained: Sequence[str], device: torch.device) -> None:
        """Group of each trained parameter; recomputed because freezing may change."""
        if trained == self._trained:
            return
        self._trained = list(trained)
        groups = [group_of(name) for name in trained]
        self._groups = list(dict.fromkeys(groups))
        rows = [[float(one == group) for group in self._groups] for one in groups]
        members = torch.tensor(rows, dtype=torch.float64)
        # A synchronous copy to a device waits for it.
        self._members = members.to(device, non_blocking=True)


def _scalars(values: Tensor) -> Sequence[Number]:
    """Elements of a vector: 0-d tensors on a device, floats on a CPU."""
    return values.tolist() if values.device.type == "cpu" else values.unbind()
