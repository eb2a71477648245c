"""Losses as (sum, count), so that a step can divide once, by the count of the whole step."""

from __future__ import annotations

from typing import NamedTuple, Protocol, assert_never

from torch import Tensor, nn
from torch.nn import functional

from trainwright.contract.metric import TaskKind
from trainwright.data.feed import Batch


class LossSum(NamedTuple):
    """The loss of a micro-batch, summed over its targets (0-d), and how many targets that were."""

    sum: Tensor
    targets: int


class Objective(Protocol):
    """What training makes small.

    An implementation returns a sum, never a mean: a mean of micro-batches of unequal size is not
    the mean of the step. It must not change the model's mode, and count exactly the targets that
    the feed announced for the batch.
    """

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """The summed loss of a micro-batch."""
        ...


def cross_entropy(model: nn.Module, batch: Batch) -> LossSum:
    """Sum of -log softmax(logits)[target] over (numeric, categories, target int64 [B])."""
    *inputs, target = batch
    logits = model(*inputs)
    return LossSum(functional.cross_entropy(logits, target, reduction="sum"), len(target))


def squared_error(model: nn.Module, batch: Batch) -> LossSum:
    """Sum of (output - target)^2 over (numeric, categories, standardised target float [B])."""
    *inputs, target = batch
    values = model(*inputs).squeeze(1)
    return LossSum(functional.mse_loss(values, target, reduction="sum"), len(target))


def build_objective(task: TaskKind) -> Objective:
    """The loss of a task."""
    match task:
        case "classification":
            return cross_entropy
        case "regression":
            return squared_error
        case _:
            assert_never(task)
