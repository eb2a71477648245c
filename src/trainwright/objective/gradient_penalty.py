"""Input-gradient penalty for any objective."""

from __future__ import annotations

from typing import final

import torch
from torch import nn

from trainwright.data.loading.batch import Batch, as_batch
from trainwright.objective.losses import LossSum, Objective


@final
class GradientPenalty:
    """loss + weight x sum over rows of |d loss / d input|^2, "double backpropagation" (Drucker and
    Le Cun 1992, IEEE Transactions on Neural Networks 3, equation 4): small changes of the input
    must not change the loss much.

    The first tensor of the batch is the input; it must be floating-point. As each row's loss
    depends on its own input alone, the gradient of the sum contains the gradient of each row. Batch
    norm breaks this. The step costs a second backward pass.
    """

    def __init__(self, objective: Objective, weight: float) -> None:
        assert weight >= 0
        self._objective = objective
        self._weight = weight

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """Penalised loss; without gradients, as in a validation, the loss alone."""
        if not torch.is_grad_enabled():
            return self._objective(model, batch)
        batch = as_batch(batch)
        inputs = batch[0].detach().requires_grad_()
        loss = self._objective(model, batch.with_tensors(**{batch.names[0]: inputs}))
        (gradient,) = torch.autograd.grad(loss.sum, inputs, create_graph=True)
        return LossSum(loss.sum + self._weight * gradient.square().sum(), loss.targets)
