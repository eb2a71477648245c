"""Stop rules that look at what steps gave. A step tells them its outcome."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, final

from trainwright.checkpoint.state import Snapshot
from trainwright.core.progress import Progress
from trainwright.data.loading.feed import StepBatches
from trainwright.engine.step import Step
from trainwright.engine.stop_rules import StopReason
from trainwright.tracking.events import StepOutcome
from trainwright.tracking.signals import ReadScalars, read_each

_SMALL_IN_A_ROW = 10


class StepRule(Protocol):
    """A stop rule that follows loss and gradient norm from step to step."""

    def take(self, loss: float, norm: float) -> None:
        """Take in one applied step."""
        ...

    def reason(self, progress: Progress) -> StopReason | None:
        """Why the run ends here, or None to go on."""
        ...

    def snapshot(self) -> Snapshot:
        """What it has taken in."""
        ...

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from there."""
        ...


@final
class WatchedStep:
    """A step that tells stop rules what it gave, `window` steps at a time.

    A dropped step is not told. The outcomes that were not told yet are part of its state.
    """

    def __init__(
        self,
        step: Step,
        rules: Sequence[StepRule],
        window: int = 1,
        read: ReadScalars = read_each,
    ) -> None:
        self._step = step
        self._rules = tuple(rules)
        self._window = window
        self._read = read
        self._untold: list[StepOutcome] = []

    def __call__(self, work: StepBatches) -> StepOutcome:
        """The step, and what the rules make of it."""
        outcome = self._step(work)
        self._untold.append(outcome)
        if len(self._untold) >= self._window:
            untold, self._untold = self._untold, []
            self._tell(untold)
        return outcome

    def snapshot(self) -> Snapshot:
        """The rules' states, and the numbers that they were not told yet."""
        numbers = self._numbers(self._untold)
        return Snapshot(
            values={
                "untold": [list(pair) for pair in numbers],
                "rules": [rule.snapshot().values for rule in self._rules],
            }
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from there."""
        values = snapshot.values
        for rule, saved in zip(self._rules, values["rules"], strict=True):
            rule.restore(Snapshot(values=saved))
        self._untold = [
            StepOutcome(float(loss), 0.0, float(norm), 0.0, 0.0, 0.0, 0, 0, 0)
            for loss, norm in values["untold"]
        ]

    def _tell(self, untold: Sequence[StepOutcome]) -> None:
        for loss, norm in self._numbers(untold):
            if math.isfinite(loss) and math.isfinite(norm):
                for rule in self._rules:
                    rule.take(loss, norm)

    def _numbers(self, untold: Sequence[StepOutcome]) -> list[tuple[float, float]]:
        """Loss and gradient norm; NaN of a step that was dropped."""
        count = len(untold)
        numbers = self._read(
            [
                *(seen.loss for seen in untold),
                *(seen.gradient_norm for seen in untold),
                *(seen.found_nonfinite for seen in untold),
            ]
        )
        losses, norms, dropped = (numbers[count * at : count * (at + 1)] for at in range(3))
        return [
            (math.nan if one else loss, norm)
            for loss, norm, one in zip(losses, norms, dropped, strict=True)
        ]


@final
class LossPlateauRule:
    """Ends when the mean loss of a stretch of steps is not lower than that of the stretch before.

    Stretches follow one another without overlap. A loss that is not positive counts as falling as
    long as it falls at all.
    """

    def __init__(self, steps: int, min_gain: float) -> None:
        self._steps = steps
        self._min_gain = min_gain
        self._sum, self._count = 0.0, 0
        self._before, self._now = math.nan, math.nan

    def take(self, loss: float, norm: float) -> None:  # noqa: ARG002
        """Add to the stretch; at its end compare from here on."""
        self._sum += loss
        self._count += 1
        if self._count == self._steps:
            self._before, self._now = self._now, self._sum / self._steps
            self._sum, self._count = 0.0, 0

    def reason(self, progress: Progress) -> StopReason | None:  # noqa: ARG002
        """`early` once a stretch brought too little."""
        if not self._now >= self._before - self._min_gain * abs(self._before):
            return None
        return StopReason(
            "early",
            f"the training loss is on a plateau: {self._now:.5g} over the last {self._steps:,} "
            f"steps, {self._before:.5g} over those before",
        )

    def snapshot(self) -> Snapshot:
        """The stretch so far and the means of the last two."""
        return Snapshot(
            values={
                "sum": self._sum,
                "count": self._count,
                "before": self._before,
                "now": self._now,
            }
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from there."""
        values = snapshot.values
        self._sum, self._count = float(values["sum"]), int(values["count"])
        self._before, self._now = float(values["before"]), float(values["now"])


@final
class GradientNormBelow:
    """Ends when the gradient norm was below a value in ten steps one after the other."""

    def __init__(self, least: float) -> None:
        self._least = least
        self._in_a_row = 0

    def take(self, loss: float, norm: float) -> None:  # noqa: ARG002
        """Count it, or begin again."""
        self._in_a_row = self._in_a_row + 1 if norm < self._least else 0

    def reason(self, progress: Progress) -> StopReason | None:  # noqa: ARG002
        """`early` after ten."""
        if self._in_a_row < _SMALL_IN_A_ROW:
            return None
        text = f"the gradient norm is below {self._least:g} for {self._in_a_row} steps"
        return StopReason("early", text)

    def snapshot(self) -> Snapshot:
        """The steps in a row."""
        return Snapshot(values={"in_a_row": self._in_a_row})

    def restore(self, snapshot: Snapshot) -> None:
        """Count on from there."""
        self._in_a_row = int(snapshot.values["in_a_row"])
