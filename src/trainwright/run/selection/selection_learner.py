"""Learner of a selection: trains every candidate, compares them, and keeps one or an ensemble."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import final

import numpy as np

from trainwright.contract.sections.model.selection import DUMMY_CANDIDATE, ModelSelection
from trainwright.core.errors import Mistake, Problem
from trainwright.core.formatting import many, show_number, show_seconds
from trainwright.data.types import Prepared
from trainwright.evaluation.candidates.compare_candidates import ComparedRows
from trainwright.evaluation.clause import LINEAR
from trainwright.planner.budget_allotment import EndingDelay
from trainwright.planner.plan import Plan
from trainwright.predictor.ensemble_scorer import Member
from trainwright.run.learners.calibrate import calibrate
from trainwright.run.learners.inner_training import inner_predictor
from trainwright.run.learners.learner import is_calibrated
from trainwright.run.library_fit import Fitted
from trainwright.run.prepare.contract_target import compare_by_defined
from trainwright.run.run_context import RunContext
from trainwright.run.screen import labelled
from trainwright.run.selection.candidate_learner import CandidateLearner, HoldOut
from trainwright.run.selection.choose_model import (
    ChosenModel,
    build_ensembles,
    choose_model,
    over_limit,
    score_rungs,
    seconds_of_kept,
)
from trainwright.run.selection.cut_to_time import RESERVE, TimeLeft, weighed
from trainwright.run.selection.ladder import Ladder, describe_times
from trainwright.run.selection.train_candidate import (
    CandidateSetup,
    TrainedCandidate,
    as_predictor,
    not_trained,
    seeded_plans,
    train_candidate,
)


@final
class SelectionLearner:
    """Candidates one after another, each with all cores."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._contract = plan.contract
        self._selection = ModelSelection.of(plan.contract.model)
        self._plans = seeded_plans(plan)

    def fit(self, prepared: Prepared, run: RunContext) -> Fitted:
        """Train the candidates; those that an earlier attempt has finished are read.

        Raises:
            Interrupted: the run can be resumed. Mistake: no candidate could be trained.
        """
        name = run.folder.full_name
        self._contract, note = compare_by_defined(self._plan.contract, prepared)
        if note:
            run.screen.say(labelled("note", note))
        with run.spent.training(name):
            division = HoldOut.of(self._contract, prepared)
            inner = replace(run, observers=tuple(run.added.observers))
            rows, climbed = division.compared(), list[TrainedCandidate]()
            left = self._time_left(division, lambda: run.spent.used(name))
            percentile = self._contract.serving.percentile
            setup = CandidateSetup(prepared, division, inner, left, percentile)
            self._say_begin(division, rows, run)
            for each in self._selection.chosen_names:
                climbed.append(self._candidate(each, setup, rows))
                if left.has_second:
                    left.put_aside(seconds_of_kept(climbed, rows, self._contract))
            chosen, ladder = self._choose(climbed, rows, setup)
            if chosen.name == LINEAR and division.has_folds:
                chosen = replace(chosen, members=self._fit_linear(setup))
        ladder.write(run.folder)
        for line in ladder.lines():
            run.screen.say(labelled("ladder", line))
        return self._fitted(chosen, ladder, rows, prepared)

    def _time_left(self, division: HoldOut, used: Callable[[], float]) -> TimeLeft:
        """With a second training there are two shares of the budget: the selection may use what the
        second training of what it keeps leaves of both."""
        weights, seconds = weighed(tuple(self._plans)), self._plan.training_seconds
        delay = EndingDelay(self._plan.allotment, RESERVE * seconds)
        if not self._contract.training.refit:
            return TimeLeft(seconds, weights, used, delay=lambda: delay.seconds)
        first = len(division.pool) - len(division.held_out[0])
        factor = len(division.pool) / first / division.count
        return TimeLeft(2 * seconds, weights, used, factor, lambda: delay.seconds)

    def _say_begin(self, division: HoldOut, rows: ComparedRows, run: RunContext) -> None:
        on = f"{many(len(rows), 'row')} of {division.count} folds"
        on = on if division.has_folds else f"{many(len(rows), 'validation row')}"
        count = len(self._selection.chosen_names)
        run.screen.say(labelled("selection", f"{many(count, 'candidate')}, compared on {on}"))

    def _candidate(self, name: str, setup: CandidateSetup, rows: ComparedRows) -> TrainedCandidate:
        found = self._plan.candidates.get(name, "")
        if name != DUMMY_CANDIDATE and name not in self._plans:
            return not_trained(name, str(found))
        run, left = setup.run, setup.left.seconds
        if not math.isinf(left):
            share = show_seconds(setup.left.share(name))
            said = f"{name}: at most {share} of the {show_seconds(left)} left"
            run.screen.say(labelled("candidate", said))
        trained = train_candidate(name, self._plans.get(name), setup)
        if trained.rung.skipped:
            run.screen.say(labelled("skipped", f"{name}: {trained.rung.skipped}"))
            return trained
        metric = self._contract.metric
        value = f"{metric.name} {show_number(rows.value(trained.scores, metric))}"
        run.screen.say(labelled("candidate", f"{name}: {value} · {describe_times(trained.rung)}"))
        return trained

    def _choose(
        self, climbed: Sequence[TrainedCandidate], rows: ComparedRows, setup: CandidateSetup
    ) -> tuple[ChosenModel, Ladder]:
        contract = self._contract
        trained = [one for one in climbed if one.predictors]
        if not trained:
            raise Mistake(_none_trained(climbed))
        ensembles = list(build_ensembles(trained, rows, contract, setup))
        compared = score_rungs(trained, ensembles, rows, contract)
        rungs = [*(one.rung for one in climbed), *(one.rung for one in ensembles)]
        over = {rung.name: over_limit(rung, contract.serving) for rung in rungs}
        within = [one for one in trained if not over[one.name]]
        allowed = [one for one in ensembles if not over[one.name]]
        # Where nothing is within the limits, the verdict says so of the model that is nearest.
        chosen = choose_model(within or [_nearest(trained)], compared, allowed, rows, contract)
        ladder = Ladder(
            metric=contract.metric,
            rungs=rungs,
            compared=compared,
            limits={name: said for name, said in over.items() if said},
            rows=len(rows),
            folds=setup.division.count if setup.division.has_folds else 0,
            percentile=setup.percentile,
            chosen=chosen.name,
            reason=chosen.reason,
            ensembles=[one.facts(compared[one.name]) for one in ensembles],
        )
        return chosen, ladder

    def _fit_linear(self, setup: CandidateSetup) -> Sequence[Member]:
        """One linear model of the training rows, which the linear baseline is too: a mean of as
        many as there are folds would be no better, and only look like another model."""
        prepared, division = setup.prepared, setup.division
        held_out = np.arange(len(prepared.train), len(division.pool))
        whole = replace(division, held_out=(held_out,), has_folds=False)
        folder = setup.run.folder.of_candidate(LINEAR, division.count + 1, prepared.version)
        learner = CandidateLearner(self._plans[LINEAR], whole, 0, math.inf)
        predictor, _ = inner_predictor(learner, prepared, setup.run, folder)
        return [Member(f"{LINEAR}-01", LINEAR, 1.0, predictor)]

    def _fitted(
        self, chosen: ChosenModel, ladder: Ladder, rows: ComparedRows, prepared: Prepared
    ) -> Fitted:
        predictor = as_predictor(chosen.members, prepared, chosen.levels)
        notes = {rung.name: rung.notes for rung in ladder.rungs}.get(chosen.name, ())
        reason = f"{chosen.name}, {chosen.reason}"
        fitted = Fitted(predictor, "finished", reason, notes)
        if not is_calibrated(self._contract):
            return fitted
        return calibrate(fitted, chosen.scores, rows.truth, rows.units, self._contract)


def _nearest(trained: Sequence[TrainedCandidate]) -> TrainedCandidate:
    """The fastest."""
    return min(trained, key=lambda one: one.rung.latency_ms)


def _none_trained(climbed: Sequence[TrainedCandidate]) -> Problem:
    why = "; ".join(f"{one.name}: {one.rung.skipped}" for one in climbed)
    return Problem(
        "no candidate could be trained",
        path="model.candidates",
        found=why,
        fix="give a larger budget, or other candidates",
    )
