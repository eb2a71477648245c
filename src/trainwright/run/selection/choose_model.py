"""Which candidate is kept, or which ensemble of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from trainwright.contract.document import Contract
from trainwright.contract.sections.metric import METRICS, Metric
from trainwright.contract.sections.model.selection import ModelSelection
from trainwright.contract.sections.run_settings import Serving
from trainwright.data.base.inputs import Floats
from trainwright.data.subsample import drawn_rows
from trainwright.evaluation.candidates.compare_candidates import (
    ComparedRows,
    ComparedScore,
    best_of,
    choose_simplest,
    compare_candidates,
)
from trainwright.evaluation.candidates.greedy_ensemble import select_ensemble, select_greedily
from trainwright.evaluation.clause import gain_status
from trainwright.predictor.ensemble_scorer import Member, SecondLevel, link_of
from trainwright.run.selection.ladder import ENSEMBLE, STACK, EnsembleFacts, Rung
from trainwright.run.selection.train_candidate import (
    CandidateSetup,
    TrainedCandidate,
    measure_members,
)

_ROWS_TO_PLAN_BY = 2_000
"""Rows on which the members of an ensemble are foreseen while candidates are left to train."""


@final
@dataclass(frozen=True, slots=True)
class ChosenModel:
    """The kept model: its members, the second level over them if there is one, and their scores of
    the compared rows."""

    name: str
    reason: str
    members: Sequence[Member]
    scores: Floats
    levels: Sequence[SecondLevel] = ()


@final
@dataclass(frozen=True, slots=True)
class BuiltEnsemble:
    """An ensemble of candidates with its rung. `weights` sum to 1, `scores` are cross-fitted."""

    weights: Mapping[str, float]
    value_on_selected: float
    scores: Floats
    members: tuple[Member, ...]
    rung: Rung
    levels: tuple[SecondLevel, ...] = ()

    @property
    def name(self) -> str:
        """Its name on the ladder."""
        return self.rung.name

    def facts(self, compared: ComparedScore) -> EnsembleFacts:
        """What the ladder says of it."""
        value = self.value_on_selected
        return EnsembleFacts(self.name, self.weights, value, compared, self.levels)


def build_ensembles(
    trained: Sequence[TrainedCandidate],
    rows: ComparedRows,
    contract: Contract,
    setup: CandidateSetup,
) -> Iterator[BuiltEnsemble]:
    """The weighted mean, with weights selected by the contract's metric, and a second level if the
    contract allows one; none of a single candidate."""
    selection = ModelSelection.of(contract.model)
    if not selection.ensemble or len(trained) < 2:
        return
    scores = {one.name: one.scores for one in trained}
    selected = select_ensemble(scores, rows, contract.metric, contract.seed)
    members, rung = _measured(ENSEMBLE, selected.weights, trained, setup)
    value = selected.value_on_selected
    yield BuiltEnsemble(selected.weights, value, selected.scores, members, rung)
    if not selection.stacks:
        return
    # Imported here: few selections stack.
    from trainwright.evaluation.candidates.stacking import stack_candidates

    link = link_of(setup.prepared.target)
    stacked = stack_candidates(scores, rows, contract.metric, link, selected, contract.seed)
    weights, levels = stacked.level.shares, (stacked.level,)
    members, rung = _measured(STACK, weights, trained, setup, levels)
    yield BuiltEnsemble(weights, stacked.value_on_fitted, stacked.scores, members, rung, levels)


def _measured(
    name: str,
    weights: Mapping[str, float],
    trained: Sequence[TrainedCandidate],
    setup: CandidateSetup,
    levels: Sequence[SecondLevel] = (),
) -> tuple[tuple[Member, ...], Rung]:
    """Members of an ensemble, and the latency of the whole."""
    by_name = {one.name: one for one in trained}
    members = tuple(
        member for one, weight in weights.items() for member in by_name[one].members(weight)
    )
    megabytes = sum(by_name[one].rung.megabytes for one in weights)
    return members, measure_members(name, members, megabytes, setup, levels)


def over_limit(rung: Rung, serving: Serving) -> str:
    """The limits of the contract that a rung is over; empty if none."""
    found = []
    if serving.latency_ms != "unlimited" and rung.latency_ms > serving.latency_ms:
        found.append(f"{rung.latency_ms:.3g} ms a row, at most {serving.latency_ms:g}")
    if serving.megabytes != "unlimited" and rung.megabytes > serving.megabytes:
        found.append(f"{rung.megabytes:.3g} MB, at most {serving.megabytes:g}")
    return "; ".join(found)


def choose_model(
    trained: Sequence[TrainedCandidate],
    compared: Mapping[str, ComparedScore],
    ensembles: Sequence[BuiltEnsemble],
    rows: ComparedRows,
    contract: Contract,
) -> ChosenModel:
    """By the contract's rule, among candidates within the limits, from the simplest on."""
    selection = ModelSelection.of(contract.model)
    direction = METRICS[contract.metric.name].direction
    by_name = {one.name: one for one in trained}
    values = {name: compared[name].score.value for name in by_name}
    best = best_of(values, direction)
    for one, why in _ensembles_above(ensembles, compared, rows, contract, best):
        said = f"of {len(one.weights)} candidates: {why}, {best}"
        return ChosenModel(one.name, said, one.members, one.scores, one.levels)
    name, reason = best, f"the best of {len(trained)}"
    if selection.choice == "simplest":
        name = choose_simplest(compared, list(by_name), direction)
        if name != best:
            reason = f"the simplest of {len(trained)} whose interval reaches the best, {best}"
    chosen = by_name[name]
    return ChosenModel(name, reason, chosen.members(1.0), chosen.scores)


def _ensembles_above(
    ensembles: Sequence[BuiltEnsemble],
    compared: Mapping[str, ComparedScore],
    rows: ComparedRows,
    contract: Contract,
    best: str,
) -> Iterator[tuple[BuiltEnsemble, str]]:
    """The ensemble that is kept in place of the best candidate and why, if there is one."""
    selection, metric = ModelSelection.of(contract.model), contract.metric
    direction = METRICS[metric.name].direction
    if selection.choice == "best" and selection.ensemble != "always":
        values = {one.name: compared[one.name].score.value for one in ensembles}
        values[best] = compared[best].score.value
        name = best_of(values, direction)
        yield from ((one, "above the best candidate") for one in ensembles if one.name == name)
        return
    above = "its interval is above the best candidate"
    fit = [one for one in ensembles if gain_status(compared[one.name].gain, direction) == "met"]
    match fit:
        case []:
            if selection.ensemble == "always":
                yield from ((one, "as the contract says") for one in ensembles)
        case [one]:
            yield one, above
        case [mean, *others]:
            better = [one for one in others if _is_above(one, mean, rows, metric, contract.seed)]
            yield (better or [mean])[0], above


def _is_above(
    one: BuiltEnsemble, mean: BuiltEnsemble, rows: ComparedRows, metric: Metric, seed: int
) -> bool:
    """Is the paired interval of an ensemble above that of the simpler one?"""
    pair = {mean.name: mean.scores, one.name: one.scores}
    gain = compare_candidates(pair, rows, metric, seed, against=mean.name)[one.name].gain
    return gain_status(gain, METRICS[metric.name].direction) == "met"


def seconds_of_kept(
    climbed: Sequence[TrainedCandidate], rows: ComparedRows, contract: Contract
) -> float:
    """How long the candidates took that would be kept by now: the members of an ensemble, selected
    on some of the rows, or the longest of them."""
    trained = [one for one in climbed if one.predictors]
    if not ModelSelection.of(contract.model).ensemble or len(trained) < 2:
        return max((one.rung.seconds for one in trained), default=0.0)
    drawn = drawn_rows(len(rows), min(len(rows), _ROWS_TO_PLAN_BY), contract.seed)
    scores = {one.name: one.scores[drawn] for one in trained}
    weights = select_greedily(scores, rows.take(drawn), contract.metric, contract.seed)
    return math.fsum(one.rung.seconds for one in trained if one.name in weights)


def score_rungs(
    trained: Sequence[TrainedCandidate],
    ensembles: Sequence[BuiltEnsemble],
    rows: ComparedRows,
    contract: Contract,
) -> dict[str, ComparedScore]:
    """Scores of the candidates against the best of them, and of the ensembles against the same."""
    metric = contract.metric
    single = {one.name: one.scores for one in trained}
    compared = compare_candidates(single, rows, metric, contract.seed)
    values = {name: each.score.value for name, each in compared.items()}
    best = best_of(values, METRICS[metric.name].direction)
    for one in ensembles:
        pair = {best: single[best], one.name: one.scores}
        found = compare_candidates(pair, rows, metric, contract.seed, against=best)
        compared[one.name] = found[one.name]
    return compared
