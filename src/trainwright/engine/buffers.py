"""Buffers updated by the forward pass: BatchNorm running statistics."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from trainwright.optim.swa import NORMS


@final
class MovingBuffers:
    """Saves and restores the buffers that forward passes update, such as the running mean of batch
    norm.

    They have absorbed a bad batch before its loss is known, so a step that drops its update
    restores them. Which ones change is detected in the first forward pass, before anything is
    restored; constant buffers cost nothing after it. Those of a batch norm count as changing: one
    that is frozen may be trained later.
    """

    def __init__(self, model: nn.Module) -> None:
        self._moving = list(model.buffers())
        norms = (one for one in model.modules() if isinstance(one, NORMS))
        self._of_norms = {id(buffer) for norm in norms for buffer in norm.buffers()}
        self._before = [buffer.clone() for buffer in self._moving]
        self.settled = not self._moving

    def keep(self) -> None:
        """Copy the buffers before a step."""
        if self._moving:
            torch._foreach_copy_(self._before, self._moving)

    def put_back(self) -> None:
        """Restore their values from before the step."""
        if self._moving:
            torch._foreach_copy_(self._moving, self._before)

    def put_back_if(self, dropped: Tensor) -> None:
        """Restore them where `dropped` (0-d, on the device) is not 0, without reading it."""
        for now, before in zip(self._moving, self._before, strict=True):
            now.copy_(torch.where(dropped > 0, before, now))

    def settle(self) -> None:
        """After the first forward pass, keep only the buffers that changed. Synchronises with the
        device."""
        pairs = zip(self._moving, self._before, strict=True)
        moved = [
            (now, before)
            for now, before in pairs
            if id(now) in self._of_norms or not torch.equal(now, before)
        ]
        self._moving, self._before = [now for now, _ in moved], [before for _, before in moved]
        self.settled = True
