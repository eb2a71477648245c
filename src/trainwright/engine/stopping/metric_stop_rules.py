"""Stop rules on training metrics, updated by the outcomes of steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, final

from trainwright.checkpoint.state import Snapshot
from trainwright.core.progress import Progress
from trainwright.engine.stopping.stop_rules import StopReason
from trainwright.tracking.events import StepOutcome
from trainwright.tracking.signals import ReadScalars, read_each

_SMALL_IN_A_ROW = 10


class StepRule(Protocol):
    """Stop rule on the loss and gradient norm of each step."""

    def take(self, loss: float, norm: float) -> None:
        """Update with one applied step."""
        ...

    def reason(self, progress: Progress) -> StopReason | None:
        """Reason to end the run, or None to continue."""
        ...

    def snapshot(self) -> Snapshot:
        """State of the rule."""
        ...

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state."""
        ...


@final
class MetricStopRules:
    """Updates stop rules with the outcomes of steps, `window` steps at a time.

    Dropped steps are skipped. Outcomes not yet passed on are part of the state.
    """

    def __init__(
        self,
        rules: Sequence[StepRule],
        window: int = 1,
        read: ReadScalars = read_each,
    ) -> None:
        self._rules = tuple(rules)
        self._window = window
        self._read = read
        self._untold: list[StepOutcome] = []

    def take_outcome(self, outcome: StepOutcome) -> None:
        """Update the rules once a window is full."""
        self._untold.append(outcome)
        if len(self._untold) >= self._window:
            untold, self._untold = self._untold, []
            self._tell(untold)

    def snapshot(self) -> Snapshot:
        """States of the rules, and the outcomes not yet passed to them."""
        numbers = self._numbers(self._untold)
        return Snapshot(
            values={
                "untold": [list(pair) for pair in numbers],
                "rules": [rule.snapshot().values for rule in self._rules],
            }
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state."""
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
        """Loss and gradient norm; NaN for a dropped step."""
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
    """Stops when the mean loss over a segment of steps is not lower than over the segment before.

    Segments do not overlap. For a loss that is not positive, any decrease counts.
    """

    def __init__(self, steps: int, min_gain: float) -> None:
        self._steps = steps
        self._min_gain = min_gain
        self._sum, self._count = 0.0, 0
        self._before, self._now = math.nan, math.nan

    def take(self, loss: float, norm: float) -> None:  # noqa: ARG002
        """Add to the segment; at its end, compare it with the previous one."""
        self._sum += loss
        self._count += 1
        if self._count == self._steps:
            self._before, self._now = self._now, self._sum / self._steps
            self._sum, self._count = 0.0, 0

    def reason(self, progress: Progress) -> StopReason | None:  # noqa: ARG002
        """`early` once a segment improved too little."""
        if not self._now >= self._before - self._min_gain * abs(self._before):
            return None
        return StopReason(
            "early",
            f"the training loss is on a plateau: {self._now:.5g} over the last {self._steps:,} "
            f"steps, {self._before:.5g} over the {self._steps:,} before",
        )

    def snapshot(self) -> Snapshot:
        """Current segment and the means of the last two."""
        return Snapshot(
            values={
                "sum": self._sum,
                "count": self._count,
                "before": self._before,
                "now": self._now,
            }
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state."""
        values = snapshot.values
        self._sum, self._count = float(values["sum"]), int(values["count"])
        self._before, self._now = float(values["before"]), float(values["now"])


@final
class GradientNormBelow:
    """Stops when the gradient norm is below a threshold for ten steps in a row."""

    def __init__(self, least: float) -> None:
        self._least = least
        self._in_a_row = 0

    def take(self, loss: float, norm: float) -> None:  # noqa: ARG002
        """Count the step, or reset the count."""
        self._in_a_row = self._in_a_row + 1 if norm < self._least else 0

    def reason(self, progress: Progress) -> StopReason | None:  # noqa: ARG002
        """`early` after ten."""
        if self._in_a_row < _SMALL_IN_A_ROW:
            return None
        text = f"the gradient norm has been below {self._least:g} for {self._in_a_row} steps"
        return StopReason("early", text)

    def snapshot(self) -> Snapshot:
        """Steps in a row."""
        return Snapshot(values={"in_a_row": self._in_a_row})

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the count."""
        self._in_a_row = int(snapshot.values["in_a_row"])
