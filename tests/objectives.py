"""What small networks are trained for."""

from __future__ import annotations

from torch import nn
from torch.nn import functional

from trainwright.data.loading.batch import Batch
from trainwright.objective.losses import LossSum


def squared_error(model: nn.Module, batch: Batch) -> LossSum:
    """The sum of the squared errors, and the number of rows."""
    x, y = batch
    return LossSum(functional.mse_loss(model(x), y, reduction="sum"), len(y))
