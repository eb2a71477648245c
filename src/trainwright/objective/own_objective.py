"""Training loss of the user's own code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from torch import Tensor, nn

from trainwright.core.errors import Mistake, Problem
from trainwright.data.loading.batch import Batch
from trainwright.objective.losses import LossSum


@final
class OwnObjective:
    """Calls a function of (model, batch) and checks what it returns: the summed loss of a batch and
    the number of its targets."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self._function = function

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """Summed loss of a micro-batch.

        Raises:
            Mistake: the function returns something else, such as a mean alone.
        """
        given = self._function(model, batch)
        if isinstance(given, tuple) and len(given) == 2:
            total, targets = given
            is_number = isinstance(total, Tensor) and total.ndim == 0
            if is_number and type(targets) is int and targets > 0:
                return LossSum(total, targets)
        raise Mistake(
            Problem(
                "the objective returns no sum and number of targets",
                path="model.objective",
                found=_shown(given),
                expected="(sum of the losses of all targets, their number): a tensor without "
                "dimensions and an int",
                fix="return loss.sum(), len(batch['target'])",
            )
        )


def _shown(given: object) -> str:
    if isinstance(given, Tensor):
        return f"one tensor of shape {list(given.shape)}"
    if isinstance(given, tuple):
        return f"({', '.join(type(one).__name__ for one in given)})"
    return type(given).__name__
