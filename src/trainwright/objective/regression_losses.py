"""Regression losses, also of rows with several targets."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from trainwright.objective.losses import LossSum, TargetLoss, in_fp32

MOST_EXPONENT = 20.0
"""Logarithm of a rate, in means of the target, above which the exponential goes on as a straight
line: its square would leave the range of fp32."""


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


@final
class QuantilesLoss:
    """Mean pinball loss of K quantiles: outputs [B, K] against targets [B], a target a row."""

    def __init__(self, quantiles: tuple[float, ...]) -> None:
        assert all(0 < one < 1 for one in quantiles)
        self._quantiles = quantiles

    def rows(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Loss of each target."""
        apart = target[:, None] - in_fp32(outputs)
        levels = torch.tensor(self._quantiles, dtype=apart.dtype, device=apart.device)
        return torch.maximum(levels * apart, (levels - 1) * apart).mean(dim=1)

    def total(self, outputs: Tensor, target: Tensor) -> LossSum:
        """Summed loss."""
        return LossSum(self.rows(outputs, target).sum(), target.numel())


@final
class PoissonLoss:
    """exp(output) - target * output, the negative log-likelihood of a count with the rate
    exp(output), but for what does not depend on the output (McCullagh and Nelder 1989, Generalized
    Linear Models, section 6.3). Targets are counts in units of their mean, so that an output of 0
    is the mean. Above `MOST_EXPONENT` the exponential goes on along its tangent."""

    def rows(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Loss of each target."""
        logs = in_fp32(outputs).view(target.shape)
        inside = logs.clamp_max(MOST_EXPONENT)
        return inside.exp() * (1 + logs - inside) - target * logs

    def total(self, outputs: Tensor, target: Tensor) -> LossSum:
        """Summed loss."""
        return LossSum(self.rows(outputs, target).sum(), target.numel())


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
