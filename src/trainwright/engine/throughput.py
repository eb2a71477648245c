"""Gauges that look at nothing but the clock and the memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch

from trainwright.core.machine import resident_bytes
from trainwright.engine.telemetry import Window
from trainwright.tracking.events import Number


@final
class Throughput:
    """`rows_per_second`, and the targets a second where they are not the rows, for example as
    `tokens_per_second`. Wall time, without validations and checkpoints."""

    def __init__(self, unit: str = "rows") -> None:
        self._unit = unit

    def read(self, window: Window) -> Mapping[str, Number]:
        """The rates of the window."""
        return {
            "rows_per_second": window.rows / window.seconds,
            f"{self._unit}_per_second": window.targets / window.seconds,
        }


@final
class PaddingGauge:
    """`padding`, the share of the places of a window's rows that held no target, from 0 to 1: work
    that teaches nothing."""

    def read(self, window: Window) -> Mapping[str, Number]:
        """The share of the window."""
        targets = sum(step.targets for step in window.steps)
        return {"padding": 1 - targets / sum(step.places for step in window.steps)}


@final
class MemoryGauge:
    """`host_memory_bytes`, what this process has in RAM; on a GPU also `device_memory_bytes`, what
    its tensors take now, and `device_memory_peak_bytes`, the most they took since the process
    began. The caching allocator and the driver hold more."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def read(self, window: Window) -> Mapping[str, Number]:  # noqa: ARG002
        """The memory now."""
        numbers: dict[str, Number] = {"host_memory_bytes": float(resident_bytes())}
        if self._device.type == "cuda":
            numbers["device_memory_bytes"] = float(torch.cuda.memory_allocated(self._device))
            peak = float(torch.cuda.max_memory_allocated(self._device))
            numbers["device_memory_peak_bytes"] = peak
        return numbers
