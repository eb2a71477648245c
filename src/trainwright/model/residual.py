"""Residual connections, with stochastic depth."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn


@final
class Residual(nn.Module):
    """x + body(x); in training x alone for a share `skipped` of the rows, drawn independently.

    Kept branches are scaled by 1 / (1 - skipped), so that evaluation needs no change: stochastic
    depth (Huang et al. 2016, arXiv:1603.09382, section 3) per row, as in EfficientNet.
    """

    def __init__(self, body: nn.Module, skipped: float = 0.0) -> None:
        super().__init__()
        assert 0 <= skipped < 1
        self.body = body
        self.skipped = skipped

    def forward(self, x: Tensor) -> Tensor:
        """The input plus the residual branch."""
        change: Tensor = self.body(x)
        if self.skipped and self.training:
            rows = [len(x)] + [1] * (x.ndim - 1)
            kept = torch.rand(rows, device=x.device) >= self.skipped
            change = change * (kept / (1 - self.skipped)).to(change.dtype)
        return x + change


def skip_chances(blocks: int, last: float) -> list[float]:
    """Drop probability of each block: linear in its depth, `last` for the last (Huang et al. 2016,
    equation 4)."""
    return [last * (block + 1) / blocks for block in range(blocks)]
