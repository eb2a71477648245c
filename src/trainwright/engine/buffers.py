"""What a forward pass changes beside gradients: running statistics."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn


@final
class MovingBuffers:
    """The buffers that forward passes change, such as the running mean of batch norm.

    They take in a bad batch before its loss is known, so a step that drops its update puts them
    back. Which ones move is seen in the first forward pass, before anything is put back; what
    stands still costs nothing after it.
    """

    def __init__(self, model: nn.Module) -> None:
        self._moving = list(model.buffers())
        self._before = [buffer.clone() for buffer in self._moving]
        self.settled = not self._moving

    def keep(self) -> None:
        """Copy them, before a step."""
        if self._moving:
            torch._foreach_copy_(self._before, self._moving)

    def put_back(self) -> None:
        """Make them what they were before the step."""
        if self._moving:
            torch._foreach_copy_(self._moving, self._before)

    def put_back_if(self, dropped: Tensor) -> None:
        """The same where `dropped` (0-d, on the device) is not 0, without reading it."""
        for now, before in zip(self._moving, self._before, strict=True):
            now.copy_(torch.where(dropped > 0, before, now))

    def settle(self) -> None:
        """Behind the first forward pass: go on with those that moved. On a device it waits."""
        pairs = zip(self._moving, self._before, strict=True)
        moved = [(now, before) for now, before in pairs if not torch.equal(now, before)]
        self._moving, self._before = [now for now, _ in moved], [before for _, before in moved]
        self.settled = True
