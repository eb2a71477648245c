"""Losses of rows with several targets: outputs [B, T] against targets [B, T], a target a row."""

from __future__ import annotations

from typing import final

from torch import Tensor

from trainwright.objective.losses import LossSum, TargetLoss


@final
class SeveralTargetsLoss:
    """The mean of a loss over the T targets of each row: of a binary cross-entropy over its labels,
    so that the mean of a step is that of `torch.nn.BCEWithLogitsLoss`."""

    def __init__(self, loss: TargetLoss) -> None:
        self._loss = loss

    def rows(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Loss of each row."""
        return self._loss.rows(outputs, target).mean(dim=1)

    def total(self, outputs: Tensor, target: Tensor) -> LossSum:
        """Summed loss, and the number of rows."""
        return LossSum(self.rows(outputs, target).sum(), len(target))
