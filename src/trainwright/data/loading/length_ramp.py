"""Sequence-length ramp: windows cut into shorter ones. Needs torch."""

from __future__ import annotations

from typing import Protocol, final

from trainwright.data.loading.batch import as_batch
from trainwright.data.loading.feed import StepBatches
from trainwright.data.sampling.step_ramps import Stages


class RampedWindows(Protocol):
    """A feed of windows."""

    def next_step(self) -> StepBatches:
        """The windows of the next step; moves the cursor behind them."""
        ...

    def seek(self, samples: int) -> None:
        """Move the cursor to `samples` consumed."""
        ...


@final
class ShortWindows:
    """A feed whose windows [B, L] are cut into [B L / l, l], with the length l of the position at
    which the step begins.

    Rows, targets and cursor are those of the full windows: each token is predicted once, with a
    shorter context.
    """

    def __init__(self, feed: RampedWindows, lengths: Stages) -> None:
        self._feed = feed
        self._lengths = lengths

    def next_step(self) -> StepBatches:
        """The next step of the feed, its windows cut."""
        work = self._feed.next_step()
        length = self._lengths.at(work.samples - work.rows)
        if length == self._lengths.values[-1]:
            return work
        short = [as_batch(batch).reshape(-1, length) for batch in work.micro_batches]
        return work._replace(micro_batches=short)

    def seek(self, samples: int) -> None:
        """Move the cursor to `samples` consumed."""
        self._feed.seek(samples)
