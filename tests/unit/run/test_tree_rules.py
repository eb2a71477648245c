"""The caller's rules and observers over boosted trees, after a resume."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch")

from trainwright.core.progress import Progress
from trainwright.engine.stopping.stop_rules import StopReason
from trainwright.model.tree_growth import Grown, RuleEnding
from trainwright.run.learners.tree_learner import TreeRules
from trainwright.run.request import Additions
from trainwright.tracking.events import Event, Validated

pytestmark = pytest.mark.torch


class Seen:
    def __init__(self) -> None:
        self.improved: list[bool] = []

    def observe(self, event: Event) -> None:
        assert isinstance(event, Validated)
        self.improved.append(event.improved)


class Never:
    def reason(self, progress: Progress) -> None:
        return None


@pytest.mark.parametrize(("best", "expected"), [(0.5, [False, True]), (math.nan, [True, True])])
def test_the_best_value_is_that_of_the_kept_trees(best: float, expected: list[bool]) -> None:
    seen = Seen()
    rules = TreeRules(Additions(observers=(seen,)), "l2")
    rules.resume(Grown(trees=4, rounds=4, best_value=best))
    rules.observe(5, 0.6)
    rules.observe(6, 0.4)
    assert seen.improved == expected


def test_trees_grown_again_have_no_best_value_yet_and_end_after_as_many_rounds() -> None:
    seen, ending = Seen(), RuleEnding("early", "seen enough")
    rules = TreeRules(Additions((Never(),), (seen,)), "l2")
    rules.resume(
        Grown(trees=3, rounds=3, best_trees=3, best_value=0.5, is_done=True, ended_by=ending)
    )
    assert rules.ending == ending
    rules.restart()
    rules.observe(1, 0.6)
    assert seen.improved == [True]
    assert [rules.must_stop() for _ in range(3)] == [False, False, True]
    assert rules.ending == ending


class Pauses:
    def reason(self, progress: Progress) -> StopReason:
        return StopReason("interrupted", "later")


def test_an_interruption_by_a_rule_does_not_complete_the_training() -> None:
    rules = TreeRules(Additions((Pauses(),)), "l2")
    assert not rules.must_stop()
    assert rules.is_interrupted
