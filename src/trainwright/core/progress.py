"""Progress of a run, and requests to stop or to save, checked between steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol, final


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


@final
class StopFlag:
    """Set once something outside, for example a signal handler, requests the run to end soon.

    It also carries the request for a checkpoint, after which the run continues.
    """

    def __init__(self) -> None:
        self.why = ""
        self._watched = False
        self._save = False

    def raise_flag(self, why: str) -> None:
        """Request the run to end after its current operation."""
        self.why = why

    @property
    def is_up(self) -> bool:
        """Was it set?"""
        return bool(self.why)

    @property
    def is_watched(self) -> bool:
        """Is it checked between steps? Otherwise there is nothing to finish first."""
        return self._watched

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Inside the block the flag is checked between steps."""
        self._watched = True
        try:
            yield
        finally:
            self._watched = False

    def ask_to_save(self) -> None:
        """Request a checkpoint after the current step."""
        self._save = True

    def take_save(self) -> bool:
        """Was a checkpoint requested since the last call?"""
        asked, self._save = self._save, False
        return asked
