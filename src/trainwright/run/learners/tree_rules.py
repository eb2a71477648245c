"""Stop rules and observers of the caller in a training of boosted trees."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, final

from trainwright.core.progress import Progress
from trainwright.run.prepare_run import Additions
from trainwright.tracking.events import Validated

if TYPE_CHECKING:
    from trainwright.engine.stopping.stop_rules import StopReason


@final
class TreeRules:
    """Tells the caller's observers the validation value of each tree, as `val_<metric>` with the
    tree as the step, and asks the caller's stop rules.

    `metric` is the loss or error that LightGBM watches: less is better.
    """

    def __init__(self, added: Additions, metric: str) -> None:
        self._added = added
        self._metric = f"val_{metric}"
        self._progress = Progress()
        self._best = math.inf
        self.reasons: list[StopReason] = []

    def observe(self, trees: int, value: float) -> None:
        """Take notice of the newest tree."""
        self._progress = Progress(step=trees, attempted=trees)
        improved = value < self._best
        self._best = min(value, self._best)
        event = Validated(self._progress, {self._metric: value}, 0.0, improved)
        for observer in self._added.observers:
            observer.observe(event)

    def must_stop(self) -> bool:
        """Does a rule end the training after this tree? Every rule is asked each time."""
        asked = [rule.reason(self._progress) for rule in self._added.stop_rules]
        self.reasons = [reason for reason in asked if reason is not None]
        return bool(self.reasons)
