"""How much each searched path moves the value of a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from trainwright.contract.sections.metric import Direction
from trainwright.tune.proposals import add_trial, new_study
from trainwright.tune.space import Space

if TYPE_CHECKING:
    from trainwright.tune.study import Trial

FEWEST_TRIALS = 10
"""Trials below which a forest that is fitted on them says nothing."""


@final
@dataclass(frozen=True, slots=True)
class Importance:
    """Share of the variance of a trial's value by path; or why it cannot be estimated."""

    shares: Mapping[str, float]
    reason: str = ""


def estimate_importance(space: Space, trials: Sequence[Trial], direction: Direction) -> Importance:
    """Functional ANOVA (Hutter et al. 2014, ICML) on a forest that predicts the values of complete
    trials. Paths that are searched only with others have no share, as not every trial has them."""
    shared = Space(tuple(axis for axis in space.axes if not axis.section.only_with))
    paths = {axis.path for axis in shared.axes}
    usable = [trial for trial in trials if paths <= trial.params.keys()]
    if len(usable) < FEWEST_TRIALS:
        return Importance({}, f"it needs {FEWEST_TRIALS} complete trials, and has {len(usable)}")
    if len({trial.outcome.value for trial in usable}) == 1:
        return Importance({}, "all trials have the same value")
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    study = new_study(direction)
    for trial in usable:
        params = {path: trial.params[path] for path in paths}
        add_trial(study, shared, params, trial.outcome.value)
    evaluator = FanovaImportanceEvaluator(seed=0)
    return Importance(get_param_importances(study, evaluator=evaluator))
