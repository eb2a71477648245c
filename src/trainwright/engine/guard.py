"""The guard: judges each step after it was made, and may end the run."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol, final

from trainwright.tracking.events import StepOutcome, read_number


class Keep(NamedTuple):
    """The step stands."""


class Halt(NamedTuple):
    """The run ends here, with a reason for people."""

    why: str


Judgement = Keep | Halt


class Guard(Protocol):
    """Judges outcomes. It sees every step once, in order, and must give the same judgement on every
    rank."""

    def judge(self, outcome: StepOutcome) -> Judgement:
        """What is to become of the run after this step."""
        ...


_KEEP = Keep()


@final
class HaltOnNonFinite:
    """Ends the run at a loss or gradient that is not a finite number.

    The step has dropped its update already, so the weights are those of the last good step. On a
    GPU outcomes are read `window` at a time, to not wait for the device at every step.
    """

    def __init__(self, window: int = 1) -> None:
        self._window = window
        self._unread: list[StepOutcome] = []

    def judge(self, outcome: StepOutcome) -> Judgement:
        """`Halt` if any outcome of the window has a non-finite number."""
        self._unread.append(outcome)
        if len(self._unread) < self._window:
            return _KEEP
        unread, self._unread = self._unread, []
        for seen in unread:
            loss, norm = read_number(seen.loss), read_number(seen.gradient_norm)
            if not (math.isfinite(loss) and math.isfinite(norm)):
                last = seen.samples - 1
                return Halt(
                    f"loss {loss:g}, gradient norm {norm:g} at the step of samples "
                    f"{seen.samples - seen.rows} to {last} (epoch {seen.epoch})"
                )
        return _KEEP
