"""Learning-rate scaling for a batch-size ramp."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from trainwright.core.progress import Progress
from trainwright.optim.optimizer_protocol import Optimizer


@final
class BatchRate:
    """Schedule that scales the learning rate with the rows of the next step.

    It multiplies the current rate, so it must follow the schedule that sets it. The last, short
    step of an epoch counts as a full one.

    Args:
        optimizer: its learning rates are scaled.
        rows: rows of a step by position of the feed.
        scale: the factor for a step of `ratio` times `full` rows.
        full: rows per step for which the learning rate was set.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        rows: Callable[[int], int],
        scale: Callable[[float], float],
        full: int,
    ) -> None:
        self._groups = optimizer.param_groups
        self._rows = rows
        self._scale = scale
        self._full = full

    def __call__(self, progress: Progress) -> None:
        """Scale the current rate."""
        rows = self._rows(progress.samples)
        if rows != self._full:
            factor = self._scale(rows / self._full)
            for group in self._groups:
                group["lr"] *= factor
