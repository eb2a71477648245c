"""A lower learning rate for a while after a rollback."""

from __future__ import annotations

from typing import ClassVar, Literal, final

from trainwright.checkpoint.state import Snapshot
from trainwright.core.progress import Progress
from trainwright.optim.optimizer_protocol import Optimizer


@final
class RollbackBackoff:
    """A knob that lowers the learning rate from a rollback on, for a number of attempted steps.

    It is a function of the progress and of one number that stands in the checkpoint: the attempted
    step at which it ends. It multiplies what the knob before it has set, so it stands behind the
    one that sets the learning rate of every step.
    """

    on_rollback: ClassVar[Literal["keep"]] = "keep"

    def __init__(self, optimizer: Optimizer, factor: float, steps: int) -> None:
        self._groups = optimizer.param_groups
        self._factor = factor
        self._steps = steps
        self._until = 0
        self._attempted = 0

    def begin(self) -> None:
        """Be careful from the next step on."""
        self._until = self._attempted + 1 + self._steps

    def __call__(self, progress: Progress) -> None:
        """Lower the rate that is set, if a rollback was lately."""
        self._attempted = progress.attempted
        if progress.attempted < self._until:
            for group in self._groups:
                group["lr"] *= self._factor

    def snapshot(self) -> Snapshot:
        """Where it ends."""
        return Snapshot(values={"until": self._until})

    def restore(self, snapshot: Snapshot) -> None:
        """End where it was to end."""
        self._until = int(snapshot.values["until"])
