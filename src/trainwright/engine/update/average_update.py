"""Update of a weight average (SWA, EMA) after each step."""

from __future__ import annotations

from typing import Protocol, final

import torch
from torch import Tensor

from trainwright.tracking.events import StepOutcome, read_number


class Mean(Protocol):
    """Weight average."""

    def take(self, dropped: float | Tensor) -> None:
        """Update the average after a step, unless the update was dropped (0 or 1; a tensor on the
        device must not be read)."""
        ...


@final
class AverageUpdate:
    """Updates a weight average with the outcome of each step; dropped updates are skipped."""

    def __init__(self, mean: Mean) -> None:
        self._mean = mean

    def take_outcome(self, outcome: StepOutcome) -> None:
        """Update the average."""
        dropped = outcome.found_nonfinite
        with torch.no_grad():
            self._mean.take(dropped if isinstance(dropped, Tensor) else read_number(dropped))
