"""The winner of a study: chosen on the rows that its trials share, and judged once on the test
rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import final

import numpy as np

from trainwright.contract.sections.metric import METRICS
from trainwright.core.errors import NonFinite
from trainwright.core.files import Json
from trainwright.core.formatting import show_number
from trainwright.evaluation.candidates.compare_candidates import (
    ComparedScore,
    choose_simplest,
    compare_candidates,
)
from trainwright.evaluation.candidates.selection_bias import BestOfMany, judge_best
from trainwright.run.fit_contract import fit_contract, judge_fit
from trainwright.run.folder.interruption import is_finished
from trainwright.run.judging.evaluation_file import read_judged
from trainwright.run.run_context import Result
from trainwright.run.screen import Screen, labelled
from trainwright.tracking.run_folder import RunFolder, is_run_folder
from trainwright.tune.space import overrides_of
from trainwright.tune.study import StudyPlan, Trial
from trainwright.tune.trial import SCORES, prepare_as_asked

CLAIMED_BELOW = 0.025
"""The probability of chance below which a gain over the contract as written is claimed: that of an
interval of 95% whose lower end is above 0."""


@final
@dataclass(frozen=True, slots=True)
class Winner:
    """The kept trial, the one of the best value, the gain of the best over the contract as written
    with its interval, and what the best of so many is worth."""

    trial: Trial
    best: Trial
    compared: Mapping[int, ComparedScore]
    of_many: BestOfMany

    @property
    def is_claimed(self) -> bool:
        """Is the kept trial better than the contract as written, beyond what the best of so many
        is by chance?"""
        return self.trial.number != 0 and self.of_many.p < CLAIMED_BELOW

    def record(self) -> Json:
        """What `study.json` holds of it."""
        each = {str(number): pair for number, pair in self.compared.items()}
        return {
            "scores": {number: pair.score.to_json() for number, pair in each.items()},
            "trial": self.trial.number,
            "best": self.best.number,
            "claimed": self.is_claimed,
            "gains": {number: pair.gain.to_json() for number, pair in each.items()},
            "best_of_many": asdict(self.of_many),
        }


def choose_winner(plan: StudyPlan, trials: Sequence[Trial]) -> Winner:
    """The smallest model among the trials that are no worse than the contract as written and whose
    paired interval reaches the best.

    Raises:
        NonFinite: no trial has a value.
    """
    contract = plan.data.ready.plan.contract
    metric, direction = contract.metric, METRICS[contract.metric.name].direction
    sign = 1 if direction == "max" else -1
    valued = [
        (trial.outcome.value, trial)
        for trial in trials
        if trial.outcome.state == "complete" and trial.outcome.value is not None
    ]
    if not valued:
        reasons = "; ".join(sorted({trial.outcome.reason for trial in trials}))
        raise NonFinite(f"no trial of {plan.folder.name} has a value: {reasons}")
    valued.sort(key=lambda pair: -sign * pair[0])
    by_name = {trial.label: trial for _, trial in valued}
    names = list(by_name)
    scores = {
        name: np.asarray(np.load(plan.folder.files(trial.number).path(SCORES)), np.float64)
        for name, trial in by_name.items()
    }
    kept = best = names[0]
    default = next((name for name in names if not by_name[name].number), best)
    if plan.section.choice == "simplest":
        # None that is worse than the contract as written; the sort keeps the order of the values
        # within a size.
        able = names[: names.index(default) + 1]
        able.sort(key=lambda name: round(math.log2(max(by_name[name].outcome.megabytes, 1e-6))))
        some = {name: scores[name] for name in able}
        compared = compare_candidates(some, plan.rows, metric, contract.seed, best)
        kept = choose_simplest(compared, able, direction)
    of_many = judge_best(scores, plan.rows, metric, contract.seed, default, kept)
    against = compare_candidates(scores, plan.rows, metric, contract.seed, default)
    gains = {by_name[name].number: pair for name, pair in against.items()}
    return Winner(by_name[kept], by_name[best], gains, of_many)


def judge_winner(plan: StudyPlan, winner: Winner, screen: Screen) -> Result:
    """Open the test rows, once, and judge the run of the kept trial; what a study that was killed
    has judged is read.

    Raises:
        As `tw.judge`.
    """
    files, params = plan.folder.files(winner.trial.number), winner.trial.params
    overrides = () if not winner.trial.number else overrides_of(params)
    request = replace(
        plan.request,
        overrides=(*plan.request.overrides, *overrides),
        runs=files.trials,
        name=files.name,
        resume=True,
    )
    folder = RunFolder(files.trials / files.name)
    if is_run_folder(folder.path) and is_finished(folder):
        return read_judged(folder)
    data = prepare_as_asked(plan.data, request, overrides, screen)
    fitted = fit_contract(data, request, screen)
    return judge_fit(fitted, screen)


def describe_winner(winner: Winner, metric: str) -> list[str]:
    """What the screen says of the choice."""
    of_many, best = winner.of_many, winner.best
    lines = [
        labelled(
            "best",
            f"{best.label}: {metric} {show_number(of_many.value)} on the compared rows, of "
            f"{of_many.count} trials; other rows let expect {show_number(of_many.worth)}",
        )
    ]
    said = winner.trial.label
    if winner.trial.number != best.number:
        said += ", the smallest model whose interval reaches the best"
    if winner.trial.number and 0 in winner.compared:
        gain = winner.compared[winner.trial.number].gain
        claim = "better than" if winner.is_claimed else "not shown to be better than"
        said += (
            f" · {show_number(gain.value)} ({gain.bounds}) over the contract as written: {claim} "
            f"it after {of_many.count} trials (p {of_many.p:.3f})"
        )
    return [*lines, labelled("kept", said)]
