"""Copies from shared worker memory and from the host to device tensors. Needs torch."""

from __future__ import annotations

from typing import Protocol, final

import numpy as np
import torch
from torch import Tensor

from trainwright.data.loading.batch import Batch


def sent(values: np.ndarray, device: torch.device) -> Tensor:
    """Copy values to the device asynchronously, in stream order."""
    return torch.from_numpy(values).to(device, non_blocking=True)


class DeviceCopy(Protocol):
    """Copies worker output; its memory may be reused when `begin` returns."""

    def begin(self, views: Batch) -> Batch:
        """Start the copy."""
        ...

    def end(self, batch: Batch) -> Batch:
        """Order later work on this thread after the copy, without blocking."""
        ...


def build_landing(device: torch.device, pin_memory: bool) -> DeviceCopy:
    """Build the copy for a device; `pin_memory` stages through page-locked memory."""
    return OnGpu(device, pin_memory) if device.type == "cuda" else OnHost()


@final
class OnHost:
    """Synchronous host copy."""

    def begin(self, views: Batch) -> Batch:
        """The copies."""
        return views.apply(Tensor.clone)

    def end(self, batch: Batch) -> Batch:
        """They are complete."""
        return batch


@final
class OnGpu:
    """Copy to page-locked memory, then to the device on a separate stream, overlapping
    computation."""

    def __init__(self, device: torch.device, pin_memory: bool) -> None:
        self._device = device
        self._pins = pin_memory
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def begin(self, views: Batch) -> Batch:
        """Enqueue the device copies."""
        with torch.cuda.stream(self._stream):
            return views.move(self._sent)

    def end(self, batch: Batch) -> Batch:
        """Let the device's own stream wait for the copies."""
        current = torch.cuda.current_stream(self._device)
        current.wait_stream(self._stream)
        mask = () if isinstance(batch.mask, str) else (batch.mask.tensor,)
        for tensor in (*batch, *mask):
            # Its memory was given out on the other stream, and must not be reused there too early.
            tensor.record_stream(current)
        return batch

    def _sent(self, view: Tensor) -> Tensor:
        # Page-locked memory is kept by torch's allocator, which knows when the copy has ended.
        staged = torch.empty_like(view, pin_memory=self._pins).copy_(view)
        return staged.to(self._device, non_blocking=True)
