"""Network inspection in a measured step: activations, units, gradients, norms by layer,
attention.

Each is a probe that hooks the modules for the duration of one step, and a gauge with the numbers of
that step, empty if no step was inspected. Nothing is modified: hooks see outputs and return none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Protocol, final

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.hooks import RemovableHandle

from trainwright.data.loading.feed import StepBatches
from trainwright.distributed.strategy import norms_of
from trainwright.engine.signals.telemetry import Window, Windows
from trainwright.tracking.events import Number

_UNMEASURED = nullcontext()
_SILENT = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.Identity)
_CLIPPING = (nn.ReLU, nn.ReLU6)
_SMOOTH = (nn.GELU, nn.SiLU, nn.ELU, nn.Mish)
_SMALL = 1e-3
_LEAST_DECADE, _LARGEST_DECADE = -12, 3

See = Callable[[str, nn.Module, Tensor], None]
"""Receives a module's path, the module and its output."""

_DEPTH = 2
_TINY = torch.finfo(torch.float32).tiny


class Probe(Protocol):
    """Measures a step from outside.

    It must not change weights, gradients, modes or random numbers, must not synchronise with the
    device, and must remove everything it installs when its context exits, on an exception too.
    """

    def measuring(self, work: StepBatches) -> AbstractContextManager[object]:
        """Context around one step on these batches."""
        ...


@final
class StepProbes:
    """Measures the last step of each window; the others cost one comparison.

    Args:
        windows: which steps are measured.
        probes: measure the last step of each window.
        inspections: measure that of every `every`-th window only.
    """

    def __init__(
        self,
        windows: Windows,
        probes: Sequence[Probe],
        inspections: Sequence[Probe] = (),
        every: int = 1,
    ) -> None:
        self._windows = windows
        self._probes = tuple(probes)
        self._inspections = tuple(inspections)
        self._every = every

    def around(self, work: StepBatches) -> AbstractContextManager[object]:
        """Context of the step on these batches: the probes, if it is due."""
        return self._measuring(work) if self._windows.closes_next else _UNMEASURED

    @contextmanager
    def _measuring(self, work: StepBatches) -> Iterator[None]:
        with ExitStack() as measuring:
            for probe in self._probes:
                measuring.enter_context(probe.measuring(work))
            if self._windows.number % self._every == 0:
                for probe in self._inspections:
                    measuring.enter_context(probe.measuring(work))
            yield


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
