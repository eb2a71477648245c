"""Schedules: hyperparameters as pure functions of the progress, set between two steps; rates by
batch size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, final

from trainwright.core.progress import Progress
from trainwright.optim.lr_schedule import Schedule
from trainwright.optim.optimizer_protocol import Optimizer


class Knob(Protocol):
    """Sets a hyperparameter before a step. A pure function of the progress, so that it has no state
    to save and is correct after a resume by construction."""

    def __call__(self, progress: Progress) -> None:
        """Set it for the next step."""
        ...


@final
class LearningRate:
    """Sets each parameter group's learning rate to its peak times the schedule's factor.

    The peak is the rate of the group when this object was constructed. The state of a plateau must
    be saved separately.
    """

    def __init__(self, optimizer: Optimizer, schedule: Schedule) -> None:
        self._groups = [(group, float(group["lr"])) for group in optimizer.param_groups]
        self._schedule = schedule

    def factor(self, step: int) -> float:
        """Factor for the step after `step` applied ones."""
        return self._schedule(step)

    def __call__(self, progress: Progress) -> None:
        """Set the learning rate of the step after `progress.step` applied ones."""
        factor = self._schedule(progress.step)
        for group, peak in self._groups:
            group["lr"] = peak * factor


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
