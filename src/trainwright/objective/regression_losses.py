"""Regression losses: outputs [B, 1] or [B] against targets [B]."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from trainwright.objective.losses import LossSum, in_fp32


@final
class SquaredErrorLoss:
    """(output - target)^2, minimised by the mean."""

    def rows(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Loss of each target."""
        return (in_fp32(outputs).view(target.shape) - target).square()

    def total(self, outputs: Tensor, target: Tensor) -> LossSum:
        """Summed loss."""
        values = in_fp32(outputs).view(target.shape)
        loss = functional.mse_loss(values, target, reduction="sum")
        return LossSum(loss, target.numel())


@final
class AbsoluteErrorLoss:
    """|output - target|, minimised by the median."""

    def rows(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Loss of each target."""
        return (in_fp32(outputs).view(target.shape) - target).abs()

    def total(self, outputs: Tensor, target: Tensor) -> LossSum:
        """Summed loss."""
        return LossSum(self.rows(outputs, target).sum(), target.numel())


@final
class HuberLoss:
    """a^2 / 2 for |a| <= delta, else delta (|a| - delta / 2), with a = output - target (Huber 1964,
    Annals of Mathematical Statistics 35, section 3)."""

    def __init__(self, delta: float = 1.0) -> None:
        self._delta = delta

    def rows(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Loss of each target."""
        values = in_fp32(outputs).view(target.shape)
        target = in_fp32(target)
        return functional.huber_loss(values, target, reduction="none", delta=self._delta)

    def total(self, outputs: Tensor, target: Tensor) -> LossSum:
        """Summed loss."""
        return LossSum(self.rows(outputs, target).sum(), target.numel())


@final
class QuantileLoss:
    """max(q a, (q - 1) a) with a = target - output: the pinball loss, minimised by the q-quantile
    (Koenker and Bassett 1978, Econometrica 46, equation 3.1)."""

    def __init__(self, quantile: float = 0.5) -> None:
        assert 0 < quantile < 1
        self._quantile = quantile

    def rows(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Loss of each target."""
        apart = target - in_fp32(outputs).view(target.shape)
        return torch.maximum(self._quantile * apart, (self._quantile - 1) * apart)

    def total(self, outputs: Tensor, target: Tensor) -> LossSum:
        """Summed loss."""
        return LossSum(self.rows(outputs, target).sum(), target.numel())
