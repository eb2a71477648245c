"""A step after which the mean of the weights takes them in."""

from __future__ import annotations

from typing import Protocol, final

import torch
from torch import Tensor

from trainwright.data.loading.feed import StepBatches
from trainwright.engine.step import Step
from trainwright.tracking.events import StepOutcome, read_number


class Mean(Protocol):
    """A mean of the weights over time."""

    def take(self, dropped: float | Tensor) -> None:
        """Take in the weights after a step, unless its update was dropped (0 or 1; a tensor on the
        device is not to be read)."""
        ...


@final
class AveragedStep:
    """Makes a step and tells the mean; a dropped update does not move it."""

    def __init__(self, step: Step, mean: Mean) -> None:
        self._step = step
        self._mean = mean

    def __call__(self, work: StepBatches) -> StepOutcome:
        """The step, and the mean of what it left."""
        outcome = self._step(work)
        dropped = outcome.found_nonfinite
        with torch.no_grad():
            self._mean.take(dropped if isinstance(dropped, Tensor) else read_number(dropped))
        return outcome
