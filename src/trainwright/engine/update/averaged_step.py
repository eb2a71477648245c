"""Step that updates a weight average (SWA, EMA)."""

from __future__ import annotations

from typing import Protocol, final

import torch
from torch import Tensor

from trainwright.data.loading.feed import StepBatches
from trainwright.engine.update.step import Step
from trainwright.tracking.events import StepOutcome, read_number


class Mean(Protocol):
    """Weight average."""

    def take(self, dropped: float | Tensor) -> None:
        """Update the average after a step, unless the update was dropped (0 or 1; a tensor on the
        device must not be read)."""
        ...


@final
class AveragedStep:
    """Optimizer step followed by an update of the weight average; dropped updates are skipped."""

    def __init__(self, step: Step, mean: Mean) -> None:
        self._step = step
        self._mean = mean

    def __call__(self, work: StepBatches) -> StepOutcome:
        """Make the step and update the average."""
        outcome = self._step(work)
        dropped = outcome.found_nonfinite
        with torch.no_grad():
            self._mean.take(dropped if isinstance(dropped, Tensor) else read_number(dropped))
        return outcome
