"""Progress of a run: the argument of schedules and stop rules."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Consumed(Protocol):
    """What one step consumed from the feed: the cursor after it, and its epoch."""

    @property
    def samples(self) -> int:
        """Training rows consumed since the start, this step included."""
        ...

    @property
    def epoch(self) -> int:
        """The epoch of the step, from 0."""
        ...


class Progress(NamedTuple):
    """Progress of a run in whole optimizer steps and samples.

    `step` counts applied optimizer steps, `attempted` includes those that the guard dropped.
    `samples` is the cursor of the feed: training rows consumed since the start, over all epochs and
    ranks.
    """

    step: int = 0
    attempted: int = 0
    samples: int = 0
    epoch: int = 0

    def after(self, step: Consumed) -> Progress:
        """Progress after `step` was applied."""
        return Progress(self.step + 1, self.attempted + 1, step.samples, step.epoch)

    def after_dropped(self, step: Consumed) -> Progress:
        """Progress after `step` was attempted and its update dropped."""
        return Progress(self.step, self.attempted + 1, step.samples, step.epoch)
