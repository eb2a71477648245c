"""How far a run is: the one value that knobs and stop rules are functions of."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Consumed(Protocol):
    """What one step took from the feed: the cursor after it, and the epoch it belonged to."""

    @property
    def samples(self) -> int:
        """Training rows consumed since the start, this step included."""
        ...

    @property
    def epoch(self) -> int:
        """The epoch of the step, from 0."""
        ...


class Progress(NamedTuple):
    """How far a run is, counted in whole optimizer steps and samples.

    `step` counts applied optimizer steps, `attempted` also those that the guard dropped. `samples`
    is the cursor of the feed: training rows consumed since the start, over all epochs and ranks.
    """

    step: int = 0
    attempted: int = 0
    samples: int = 0
    epoch: int = 0

    def after(self, step: Consumed) -> Progress:
        """The progress once `step` was applied."""
        return Progress(self.step + 1, self.attempted + 1, step.samples, step.epoch)

    def after_dropped(self, step: Consumed) -> Progress:
        """The progress once `step` was attempted and its update dropped."""
        return Progress(self.step, self.attempted + 1, step.samples, step.epoch)
