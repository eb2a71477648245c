"""FLOPs of a step, of a device, and their ratio: model FLOP utilisation (MFU)."""

from __future__ import annotations

import copy
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, final

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import flop_registry

from trainwright.checkpoint.states.random_state import RandomState
from trainwright.data.loading.feed import StepBatches
from trainwright.engine.execution.precision import PrecisionChoice
from trainwright.engine.signals.telemetry import Window
from trainwright.tracking.events import Noted, Number

_ATEN = torch.ops.aten
_ON_CPU = _ATEN._scaled_dot_product_flash_attention_for_cpu
_FORMULAS = {
    **flop_registry,
    # torch has a formula for fused attention on GPU, not on CPU; the first arguments agree.
    _ON_CPU: flop_registry[_ATEN._scaled_dot_product_flash_attention],
}
_ATTENTION = frozenset(
    {
        _ON_CPU,
        _ATEN._scaled_dot_product_flash_attention,
        _ATEN._scaled_dot_product_efficient_attention,
        _ATEN._scaled_dot_product_cudnn_attention,
    }
)
_SIZES_ON_CPU = (256, 512, 1024, 2048)
_SIZES_ON_GPU = (2048, 4096, 8192)
_LONG_SECONDS = 0.015
_REPEATS = 3

_DENSE_TFLOPS = {
    "H200": {"fp8": 1978.9, "bf16": 989.4, "fp16": 989.4, "tf32": 494.7, "fp32": 66.9},
    "H100 80GB HBM3": {"fp8": 1978.9, "bf16": 989.4, "fp16": 989.4, "tf32": 494.7, "fp32": 66.9},
    "H100 PCIe": {"fp8": 1513.0, "bf16": 756.0, "fp16": 756.0, "tf32": 378.0, "fp32": 51.0},
    "A100": {"bf16": 312.0, "fp16": 312.0, "tf32": 156.0, "fp32": 19.5},
    "L4": {"fp8": 242.5, "bf16": 121.0, "fp16": 121.0, "tf32": 60.0, "fp32": 30.3},
    "V100": {"fp16": 125.0, "fp32": 15.7},
    "T4": {"fp16": 65.0, "fp32": 8.1},
}
"""NVIDIA's data sheets, in TFLOP/s without sparsity."""

Shapes = tuple[tuple[int, ...], ...]
"""Signature of batches with the same FLOPs per row: their shapes without the row dimension."""


def count_flops(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Floating-point operations of one forward and backward pass with these arguments.

    A multiplication and an addition count as two, of matrix products, convolutions and attention.
    The gradient of each factor that needs one costs as much as the product itself: a linear layer
    of n weights takes 2 n operations a row forward and 4 n backward, 2 n if it is frozen. Attention
    is not halved where it is causal (PaLM, Chowdhery et al. 2022, arXiv:2204.02311, appendix B).
    What is computed twice to save memory counts once.

    One forward pass is made, by a twin that shares the weights and nothing else, so neither the
    model nor a random number is changed. It does what the model does, in the number format that is
    switched on around the call.

    Raises:
        Exception: whatever a copy of the model raises.
    """
    numbers = RandomState().snapshot()
    own = tree_map(
        lambda value: value.clone() if isinstance(value, Tensor) else value, (args, kwargs)
    )
    try:
        with torch.enable_grad(), _Counting() as counting:
            _twin(model)(*own[0], **own[1])
    finally:
        RandomState().restore(numbers)
    counted: int = counting.flops
    return counted


def _twin(model: nn.Module) -> nn.Module:
    """Copy of the model that shares its parameters, with its own buffers and without hooks, which
    observe the original."""
    known: dict[int, Any] = {id(parameter): parameter for parameter in model.parameters()}
    for module in model.modules():
        for hooks in (module._forward_hooks, module._forward_pre_hooks):
            known[id(hooks)] = OrderedDict()
    return copy.deepcopy(model, known)


@final
class _Counting(TorchDispatchMode):
    """Sums the operations of a forward pass, and those its backward pass will need."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Otherwise torch imports its compiler, which takes longer than a small run."""
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        out = func(*args, **named)
        formula = _FORMULAS.get(func.overloadpacket)
        if formula is not None:
            forward = int(formula(*args, **named, out_val=out))
            self.flops += forward * (1 + _gradients(func.overloadpacket, args))
        return out


def _gradients(packet: Any, args: Sequence[Any]) -> int:
    """Backward operations per forward operation."""
    trained = [isinstance(one, Tensor) and one.requires_grad for one in args]
    if packet in _ATTENTION:
        return 2 * any(trained[:3])
    # In addmm and baddbmm the first argument is added; the next two are the factors.
    factors = trained[1:3] if packet in (_ATEN.addmm, _ATEN.baddbmm) else trained[:2]
    return sum(factors)


def vendor_peak(device_name: str, choice: PrecisionChoice) -> float | Literal["unknown"]:
    """Vendor peak in FLOP/s, of dense matrix products in the format.

    `device_name` is torch's name of the device, for example `NVIDIA H200`.
    """
    words = device_name.replace("-", " ")
    for name, peaks in _DENSE_TFLOPS.items():
        if f" {name} " in f" {words} " and choice in peaks:
            return peaks[choice] * 1e12
    return "unknown"


def measure_peak(device: torch.device, choice: PrecisionChoice) -> float:
    """Best measured FLOP/s of square matrix products in the format.

    For fp8 they are those of bf16, in which everything but the float8 products is computed. It
    takes about a tenth of a second, and on a GPU up to 400 MB for that time. On a shared device it
    measures the remaining capacity.
    """
    sizes = _SIZES_ON_GPU if device.type == "cuda" else _SIZES_ON_CPU
    formats = {"bf16": torch.bfloat16, "fp8": torch.bfloat16, "fp16": torch.float16}
    dtype = formats.get(choice, torch.float32)
    best = 0.0
    for size in sizes:
        seconds = _seconds_of_product(size, dtype, device)
        best = max(best, 2 * size**3 / seconds)
        if seconds > _LONG_SECONDS:
            break
    return best


def _seconds_of_product(size: int, dtype: torch.dtype, device: torch.device) -> float:
    """Shortest time of one product of two [size, size] matrices."""
    one = torch.full((size, size), 0.5, dtype=dtype, device=device)
    out = torch.empty_like(one)
    shortest = float("inf")
    with torch.no_grad():
        torch.mm(one, one, out=out)
        for _ in range(_REPEATS):
            _wait(device)
            started = time.perf_counter()
            torch.mm(one, one, out=out)
            _wait(device)
            shortest = min(shortest, time.perf_counter() - started)
    return shortest


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@final
class Utilisation:
    """Probe and gauge: model FLOP utilisation, MFU (Chowdhery et al. 2022, arXiv:2204.02311,
    appendix B): achieved FLOP/s of the model over the peak FLOP/s of the device.

    `flops_per_second` is what the model needs, without recomputed activations and the optimizer.
    `peak_flops_measured` is what square matrix products reach on this device in this format, and
    `mfu_measured` the share of it; for GPUs with a data sheet also `peak_flops_vendor` and
    `mfu_vendor`. Operations are counted once for each shape of batches, at the cost of a forward
    pass; the peak is measured when the first window closes.

    Args:
        model: what is trained.
        choice: the number format of its matrix products.
        tell: gets the reason where operations cannot be counted.
    """

    def __init__(
        self, model: nn.Module, choice: PrecisionChoice, tell: Callable[[Noted], object]
    ) -> None:
        self._model = model
        self._choice = choice
        self._tell = tell
        self._device = next(model.parameters()).device
        self._per_target: dict[Shapes, float] = {}
        self._shapes: Shapes = ()
        self._known: dict[Shapes, int] = {}
        self._counted = 0
        self._peaks: dict[str, float] = {}

    @contextmanager
    def measuring(self, work: StepBatches) -> Iterator[None]:
        """Count the FLOPs of the step if its shape is new."""
        self._shapes = tuple(tuple(tensor.shape[1:]) for tensor in work.micro_batches[0])
        if self._shapes in self._per_target:
            yield
            return
        self._counted = 0
        counting = self._model.register_forward_pre_hook(self._count, with_kwargs=True)
        try:
            yield
        finally:
            counting.remove()
        self._per_target[self._shapes] = self._counted / work.targets

    def read(self, window: Window) -> Mapping[str, Number]:
        """FLOP/s and MFU; nothing if FLOPs cannot be counted."""
        flops = self._per_target.get(self._shapes, 0.0) * window.targets / window.seconds
        if not flops:
            return {}
        if not self._peaks:
            self._peaks = self._find_peaks()
        peaks = {f"peak_flops_{of}": peak for of, peak in self._peaks.items()}
        shares = {f"mfu_{of}": flops / peak for of, peak in self._peaks.items()}
        return {"flops_per_second": flops, **peaks, **shares}

    def _count(self, model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Add a call of the model; the other micro-batches are assumed to be like the first."""
        inputs = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
        shapes = tuple(tuple(value.shape) for value in inputs)
        if shapes not in self._known:
            try:
                self._known[shapes] = count_flops(model, args, kwargs)
            except Exception as error:
                # Copying a user's model may raise anything, which must not end the run.
                why = f"{type(error).__name__}: {error}".splitlines()[0]
                message = f"no model FLOP utilisation: operations cannot be counted ({why})"
                self._tell(Noted("flops_unknown", message))
                self._known[shapes] = 0
        self._counted += self._known[shapes]

    def _find_peaks(self) -> dict[str, float]:
        peaks = {"measured": measure_peak(self._device, self._choice)}
        if self._device.type == "cuda":
            known = vendor_peak(torch.cuda.get_device_name(self._device), self._choice)
            if known != "unknown":
                peaks["vendor"] = known
        return peaks
