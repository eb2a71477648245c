"""Throughput, padding and memory gauges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import final

import torch

from trainwright.core.process import resident_bytes
from trainwright.engine.signals.telemetry import Window
from trainwright.tracking.events import Number


@final
class Throughput:
    """`rows_per_second`, and the target rate where targets are not rows, for example
    `tokens_per_second`. Wall time, excluding validations and checkpoints."""

    def __init__(self, unit: str = "rows") -> None:
        self._unit = unit

    def read(self, window: Window) -> Mapping[str, Number]:
        """Rates of the window."""
        return {
            "rows_per_second": window.rows / window.seconds,
            f"{self._unit}_per_second": window.targets / window.seconds,
        }


@final
class PaddingGauge:
    """`padding`: share of the positions of a window's rows without a target, from 0 to 1 (wasted
    compute); NaN where the places of other ranks are not known."""

    def read(self, window: Window) -> Mapping[str, Number]:
        """Share in the window."""
        targets = sum(step.targets for step in window.steps)
        places = sum(step.places for step in window.steps)
        return {"padding": 1 - targets / places if places else math.nan}


@final
class MemoryGauge:
    """`host_memory_bytes`: resident memory of this process; on a GPU also `device_memory_bytes`,
    the memory allocated to tensors, and `device_memory_peak_bytes`, its peak since the process
    began. The caching allocator and the driver hold more."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def read(self, window: Window) -> Mapping[str, Number]:  # noqa: ARG002
        """Current memory."""
        numbers: dict[str, Number] = {"host_memory_bytes": float(resident_bytes())}
        if self._device.type == "cuda":
            numbers["device_memory_bytes"] = float(torch.cuda.memory_allocated(self._device))
            peak = float(torch.cuda.max_memory_allocated(self._device))
            numbers["device_memory_peak_bytes"] = peak
        return numbers
