"""Reduced learning rate after a rollback."""

from __future__ import annotations

from typing import ClassVar, Literal, final

from trainwright.checkpoint.state import Snapshot
from trainwright.core.progress import Progress
from trainwright.optim.optimizer_protocol import Optimizer


@final
class RollbackBackoff:
    """Schedule that lowers the learning rate for a number of attempted steps after a rollback.

    A function of the progress and of one checkpointed number: the attempted step at which it ends.
    It multiplies the current rate, so it must follow the schedule that sets the learning rate.
    """

    on_rollback: ClassVar[Literal["keep"]] = "keep"

    def __init__(self, optimizer: Optimizer, factor: float, steps: int) -> None:
        self._groups = optimizer.param_groups
        self._factor = factor
        self._steps = steps
        self._until = 0
        self._attempted = 0

    def begin(self) -> None:
        """Start the reduction at the next step."""
        self._until = self._attempted + 1 + self._steps

    def __call__(self, progress: Progress) -> None:
        """Lower the learning rate if a rollback was recent."""
        self._attempted = progress.attempted
        if progress.attempted < self._until:
            for group in self._groups:
                group["lr"] *= self._factor

    def snapshot(self) -> Snapshot:
        """Attempted step at which it ends."""
        return Snapshot(values={"until": self._until})

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the end."""
        self._until = int(snapshot.values["until"])
