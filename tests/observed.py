"""A step with what observes its outcomes, as the loop calls them."""

from __future__ import annotations

from collections.abc import Callable

from trainwright.data.loading.feed import StepBatches
from trainwright.engine.job import OutcomeObserver
from trainwright.engine.update.step import Step
from trainwright.tracking.events import StepOutcome


def observed(step: Step, *observers: OutcomeObserver) -> Callable[[StepBatches], StepOutcome]:
    def make(work: StepBatches) -> StepOutcome:
        outcome = step(work)
        for one in observers:
            one.take_outcome(outcome)
        return outcome

    return make
