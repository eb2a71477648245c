"""A network of one's own for a table: two hidden layers over numbers and one-hot categories."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import trainwright as tw


class TwoLayers(nn.Module):
    """(numeric [B, F], categories [B, G]) -> outputs [B, C]."""

    def __init__(self, numeric: int, cardinalities: tuple[int, ...], outputs: int, width: int):
        super().__init__()
        self.cardinalities = cardinalities
        self.body = nn.Sequential(
            nn.Linear(numeric + sum(cardinalities), width),
            nn.SiLU(),
            nn.Linear(width, width),
            nn.SiLU(),
            nn.Linear(width, outputs),
        )

    def forward(self, numeric: Tensor, categories: Tensor) -> Tensor:
        """The names of the arguments are those of the tensors of a batch."""
        columns = [
            functional.one_hot(categories[:, at], count).to(numeric.dtype)
            for at, count in enumerate(self.cardinalities)
        ]
        outputs: Tensor = self.body(torch.cat([numeric, *columns], dim=1))
        return outputs


def build(shape: Any, width: int = 32) -> nn.Module:
    """The network for the table of a contract; `width` stands in `model.options`."""
    return TwoLayers(shape.numeric, shape.cardinalities, shape.outputs, width)


def smoothed(model: nn.Module, batch: tw.Batch) -> tw.LossSum:
    """Cross-entropy with a tenth of the target spread over all classes, as a sum."""
    outputs = model(batch["numeric"], batch["categories"])
    target = batch["target"]
    loss = functional.cross_entropy(outputs, target, label_smoothing=0.1, reduction="sum")
    return tw.LossSum(loss, len(target))
