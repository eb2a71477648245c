"""Knobs: what may change between two steps, as a pure function of the progress."""

from __future__ import annotations

from typing import Protocol, final

from trainwright.core.progress import Progress
from trainwright.optim.lr_schedule import Schedule
from trainwright.optim.optimizer_protocol import Optimizer


class Knob(Protocol):
    """Sets something before a step. A pure function of the progress, so that it has no state to
    save and is right after a resume by construction."""

    def __call__(self, progress: Progress) -> None:
        """Set it for the step that comes."""
        ...


@final
class LearningRate:
    """Sets each parameter group's learning rate to its peak times the schedule's factor.

    The peak is the rate the group had when the knob was made. The state of a plateau must be
    saved beside the knob.
    """

    def __init__(self, optimizer: Optimizer, schedule: Schedule) -> None:
        self._groups = [(group, float(group["lr"])) for group in optimizer.param_groups]
        self._schedule = schedule

    def factor(self, step: int) -> float:
        """The schedule's factor for the step after `step` applied ones."""
        return self._schedule(step)

    def __call__(self, progress: Progress) -> None:
        """The learning rate of the step after `progress.step` applied ones."""
        factor = self._schedule(progress.step)
        for group, peak in self._groups:
            group["lr"] = peak * factor
