"""The learning rate of steps that grow."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from trainwright.core.progress import Progress
from trainwright.optim.optimizer_protocol import Optimizer


@final
class BatchRate:
    """A knob that scales the learning rate with the rows of the step that comes.

    It multiplies what the knob before it has set, so it stands behind the one that sets the
    learning rate of every step. A step that is short because its epoch ends counts as a full one.

    Args:
        optimizer: whose rates are scaled.
        rows: rows of a step by position of the feed.
        scale: the factor for a step of `ratio` times the rows for which the rate was set.
        full: those rows.
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
        """Scale the rate that is set."""
        rows = self._rows(progress.samples)
        if rows != self._full:
            factor = self._scale(rows / self._full)
            for group in self._groups:
                group["lr"] *= factor
