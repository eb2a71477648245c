"""Model FLOP utilisation (MFU)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from trainwright.data.loading.feed import StepBatches
from trainwright.engine.execution.precision import PrecisionChoice
from trainwright.engine.signals.count_flops import count_flops
from trainwright.engine.signals.peak_flops import measure_peak, vendor_peak
from trainwright.engine.signals.telemetry import Window
from trainwright.tracking.events import Noted, Number

Shapes = tuple[tuple[int, ...], ...]
"""Signature of batches with the same FLOPs per row: their shapes without the row dimension."""


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
