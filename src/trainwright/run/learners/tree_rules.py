"""Stop rules and observers of the caller in a training of boosted trees."""

from __future__ import annotations

import math
from typing import final

from trainwright.core.progress import Progress
from trainwright.model.tree_growth import NOTHING_GROWN, Grown, RuleEnding
from trainwright.run.request.run_request import Additions
from trainwright.tracking.events import Validated


@final
class TreeRules:
    """Tells the caller's observers the validation value of each tree, as `val_<metric>` with the
    tree as the step, and asks the caller's stop rules.

    `metric` is the loss or error that LightGBM watches: less is better. `ending` is that by a rule.
    """

    def __init__(self, added: Additions, metric: str) -> None:
        self._added = added
        self._metric = f"val_{metric}"
        self._progress = Progress()
        self._best = math.inf
        self._before = NOTHING_GROWN
        self._asked = 0
        self.ending: RuleEnding | None = None

    def resume(self, before: Grown) -> None:
        """Go on from kept trees. A rule's ending stays, whatever the rules are now: trees that must
        be grown again end after as many rounds."""
        self._before = before
        if before.is_provable:
            self.ending = before.ended_by
            self._best = math.inf if math.isnan(before.best_value) else before.best_value

    def restart(self) -> None:
        """The kept trees are grown again from the first."""
        self.ending, self._best = None, math.inf

    def observe(self, trees: int, value: float) -> None:
        """Take notice of the newest tree."""
        self._progress = Progress(step=trees, attempted=trees)
        improved = value < self._best
        self._best = min(value, self._best)
        event = Validated(self._progress, {self._metric: value}, 0.0, improved)
        for observer in self._added.observers:
            observer.observe(event)

    def must_stop(self) -> bool:
        """Does a rule complete the training after this tree? Every rule is asked each time."""
        self._asked += 1
        if (kept := self._before.ended_by) is not None:
            self.ending = kept if self._asked >= self._before.rounds else None
        else:
            asked = [rule.reason(self._progress) for rule in self._added.stop_rules]
            reasons = [reason for reason in asked if reason is not None]
            self.ending = RuleEnding(*reasons[0]) if reasons else None
        return self.ending is not None and self.ending.is_final

    @property
    def is_interrupted(self) -> bool:
        """Has a rule ended the training here, to be resumed?"""
        return self.ending is not None and not self.ending.is_final
