"""Network inspection in a measured step: activation statistics, silent units, gradient histogram.

Each is a probe that hooks the modules for the duration of one step, and a gauge with the numbers of
that step, empty if no step was inspected. Nothing is modified: hooks see outputs and return none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.hooks import RemovableHandle

from trainwright.data.loading.feed import StepBatches
from trainwright.engine.signals.telemetry import Window
from trainwright.tracking.events import Number

_SILENT = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.Identity)
_CLIPPING = (nn.ReLU, nn.ReLU6)
_SMOOTH = (nn.GELU, nn.SiLU, nn.ELU, nn.Mish)
_SMALL = 1e-3
_LEAST_DECADE, _LARGEST_DECADE = -12, 3

See = Callable[[str, nn.Module, Tensor], None]
"""Receives a module's path, the module and its output."""


@contextmanager
def seeing(modules: Mapping[str, nn.Module], see: See) -> Iterator[None]:
    """Inside the block, pass each output tensor of the modules to `see`, once even if activation
    checkpointing recomputes it."""
    handles: list[RemovableHandle] = []

    def hook_of(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, _: Any, output: Any) -> None:
            if _computed_again() or not isinstance(output, Tensor):
                return
            if output.is_floating_point():
                # Computations inside `see` must be hidden from activation checkpointing, which
                # would take them for the matrix products of attention in the block.
                with torch.no_grad(), _disable_current_modes():
                    see(name, module, output.detach())

        return hook

    try:
        for name, module in modules.items():
            handles.append(module.register_forward_hook(hook_of(name)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _computed_again() -> bool:
    """Is this forward pass part of a backward pass (a recomputation)?"""
    return torch._C._current_graph_task_id() != -1


@final
class Activations:
    """Activation statistics of each innermost module in the measured step, over all of its rows:
    `activation_mean/<module>` and `activation_deviation/<module>` (standard deviation),
    `activation_zeros/<module>`, the share of exact zeros, and `activation_nonfinite/<module>`, that
    of infinities and NaN. Dropout is excluded. It costs four passes over the activations of one
    step."""

    def __init__(self, model: nn.Module) -> None:
        self._modules = {
            name: module
            for name, module in model.named_modules()
            if not any(True for _ in module.children()) and not isinstance(module, _SILENT)
        }
        self._sums: dict[str, Tensor] = {}
        self._calls: dict[str, int] = {}

    @contextmanager
    def measuring(self, work: StepBatches) -> Iterator[None]:  # noqa: ARG002
        """Accumulate the statistics of the step."""
        self._sums, self._calls = {}, {}
        with seeing(self._modules, self._see):
            yield

    def read(self, window: Window) -> Mapping[str, Number]:  # noqa: ARG002
        """Means over the micro-batches of the step."""
        sums, self._sums = self._sums, {}
        numbers: dict[str, Number] = {}
        for name, total in sums.items():
            mean, square, zeros, nonfinite = (total / self._calls[name]).unbind()
            numbers[f"activation_mean/{name}"] = mean
            variance = (square - mean.square()).clamp_min(0)
            numbers[f"activation_deviation/{name}"] = variance.sqrt()
            numbers[f"activation_zeros/{name}"] = zeros
            numbers[f"activation_nonfinite/{name}"] = nonfinite
        return numbers

    def _see(self, name: str, _: nn.Module, output: Tensor) -> None:
        exact = output.double()
        found = torch.stack(
            [
                exact.mean(),
                exact.square().mean(),
                (output == 0).double().mean(),
                (~torch.isfinite(output)).double().mean(),
            ]
        )
        self._sums[name] = self._sums[name] + found if name in self._sums else found
        self._calls[name] = self._calls.get(name, 0) + 1


@final
class SilentUnits:
    """`silent_share/<module>`: share of units of an activation function that are silent for every
    row of the measured step. A unit is a feature (the last axis), of images and volumes a channel.
    After ReLU it is silent if it is 0; after GELU, SiLU, ELU and Mish, if its magnitude never
    exceeds 0.001, where their slope has vanished too.

    A healthy unit that fires rarely is silent in a small batch: compare within a run, and see
    `dead_share` for units without gradient over several steps.
    """

    def __init__(self, model: nn.Module) -> None:
        self._modules = {
            name: module
            for name, module in model.named_modules()
            if isinstance(module, (*_CLIPPING, *_SMOOTH))
        }
        self._largest: dict[str, Tensor] = {}

    @contextmanager
    def measuring(self, work: StepBatches) -> Iterator[None]:  # noqa: ARG002
        """Keep the largest magnitude of each unit."""
        self._largest = {}
        with seeing(self._modules, self._see):
            yield

    def read(self, window: Window) -> Mapping[str, Number]:  # noqa: ARG002
        """Shares of the step."""
        found, self._largest = self._largest, {}
        return {
            f"silent_share/{name}": (largest <= self._least(name)).double().mean()
            for name, largest in found.items()
        }

    def _least(self, name: str) -> float:
        return 0.0 if isinstance(self._modules[name], _CLIPPING) else _SMALL

    def _see(self, name: str, _: nn.Module, output: Tensor) -> None:
        unit = 1 if output.ndim > 3 else output.ndim - 1
        others = [axis for axis in range(output.ndim) if axis != unit]
        largest = output.abs().amax(dim=others)
        known = self._largest.get(name)
        self._largest[name] = largest if known is None else torch.maximum(known, largest)


@final
class GradientSizes:
    """`gradient_sizes/<decade>`: share of the gradient elements whose magnitude lies in a decade,
    -12 to 3 (`gradient_sizes/-5`: from 0.00001 to below 0.0001); smaller ones count in the first,
    larger or non-finite ones in the last. `gradient_sizes/zero` is the share of exact zeros.
    Magnitudes are those after clipping."""

    def __init__(self, model: nn.Module) -> None:
        self._parameters = list(model.parameters())
        self._counts = torch.zeros(0)

    @contextmanager
    def measuring(self, work: StepBatches) -> Iterator[None]:  # noqa: ARG002
        """Count the elements after the step."""
        yield
        counts = [_decades(p.grad) for p in self._parameters if p.grad is not None]
        self._counts = torch.stack(counts).sum(dim=0)

    def read(self, window: Window) -> Mapping[str, Number]:  # noqa: ARG002
        """Shares of the step."""
        counts, self._counts = self._counts, torch.zeros(0)
        if not len(counts):
            return {}
        shares = (counts / counts.sum()).unbind()
        names = ["zero", *map(str, range(_LEAST_DECADE, _LARGEST_DECADE + 1))]
        return {f"gradient_sizes/{name}": share for name, share in zip(names, shares, strict=True)}


def _decades(gradient: Tensor) -> Tensor:
    """Number of zeros and of elements in each decade, fp64 [1 + decades]."""
    size = gradient.detach().abs().flatten()
    edges = [10.0**decade for decade in range(_LEAST_DECADE + 1, _LARGEST_DECADE + 1)]
    bounds = torch.tensor(edges, dtype=size.dtype).to(size.device, non_blocking=True)
    # NaN sorts last; counting by comparison avoids the non-deterministic order of scatter
    # additions.
    place = torch.bucketize(size, bounds, right=True) + 1
    place = torch.where(size == 0, 0, place)
    decades = _LARGEST_DECADE - _LEAST_DECADE + 2
    return torch.stack([(place == one).sum() for one in range(decades)]).double()
