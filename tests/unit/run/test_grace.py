"""A run whose end in order takes longer than its machine lasts says so, once."""

from __future__ import annotations

from trainwright.core.progress import Progress
from trainwright.run.supervise.preemption import GraceWatch
from trainwright.tracking.events import Ended, Noted, Saved, StepKept, StepOutcome, Validated

NOWHERE = Progress()


def step(seconds: float) -> StepKept:
    return StepKept(NOWHERE, StepOutcome(1.0, 0.1, 1.0, 0.0, seconds, 0.0, 1, 1, 0))


def saved(seconds: float) -> Saved:
    return Saved(NOWHERE, "step-1", seconds, 1, 0.0)


def notes(grace: float, *events: StepKept | Saved | Validated | Ended) -> list[Noted]:
    told: list[Noted] = []
    watch = GraceWatch(grace, told.append)
    for event in events:
        watch.observe(event)
    return told


def test_what_fits_is_not_told() -> None:
    assert not notes(30, step(1), step(9), Validated(NOWHERE, {}, 10, True), saved(11))


def test_the_longest_of_each_together_are_told_once() -> None:
    events = (step(1), step(9), step(2), Validated(NOWHERE, {}, 10, True), saved(12), saved(50))
    (note,) = notes(30, *events)
    assert note.numbers == {"needed_seconds": 31, "grace_seconds": 30}
    assert "a step 9.0s, a validation 10s, a save 12s" in note.message


def test_the_first_step_makes_ready_and_is_not_counted() -> None:
    assert not notes(30, step(100), step(1), saved(5))


def test_the_first_step_of_the_next_fold_is_not_counted_either() -> None:
    ended = Ended(NOWHERE, "finished", "all epochs")
    assert not notes(30, step(100), step(1), saved(5), ended, step(100), step(1), saved(5))
    assert notes(30, step(100), step(1), saved(5), ended, step(100), step(100), saved(5))
