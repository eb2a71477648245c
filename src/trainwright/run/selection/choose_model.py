"""Which candidate is kept, or the ensemble of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from trainwright.contract.document import Contract
from trainwright.contract.sections.metric import METRICS
from trainwright.contract.sections.model.selection import ModelSelection
from trainwright.contract.sections.serving import Serving
from trainwright.data.base.table import Floats
from trainwright.evaluation.clause import gain_status
from trainwright.evaluation.compare_candidates import (
    ComparedRows,
    ComparedScore,
    best_of,
    choose_simplest,
    compare_candidates,
)
from trainwright.evaluation.greedy_ensemble import SelectedEnsemble, select_ensemble
from trainwright.predictor.ensemble_scorer import Member
from trainwright.run.selection.ladder import ENSEMBLE
from trainwright.run.selection.rung import Rung
from trainwright.run.selection.train_candidate import (
    CandidateSetup,
    TrainedCandidate,
    measure_members,
)


@final
@dataclass(frozen=True, slots=True)
class ChosenModel:
    """The kept model: its members, and their scores of the compared rows."""

    name: str
    reason: str
    members: Sequence[Member]
    scores: Floats


@final
@dataclass(frozen=True, slots=True)
class BuiltEnsemble:
    """An ensemble of candidates with its rung."""

    selected: SelectedEnsemble
    members: tuple[Member, ...]
    rung: Rung


def build_ensemble(
    trained: Sequence[TrainedCandidate],
    rows: ComparedRows,
    contract: Contract,
    setup: CandidateSetup,
) -> BuiltEnsemble:
    """Weights selected by the contract's metric, and the latency of the whole."""
    scores = {one.name: one.scores for one in trained}
    selected = select_ensemble(scores, rows, contract.metric, contract.seed)
    by_name = {one.name: one for one in trained}
    members = tuple(
        member
        for name, weight in selected.weights.items()
        for member in by_name[name].members(weight)
    )
    megabytes = sum(by_name[name].rung.megabytes for name in selected.weights)
    rung = measure_members(ENSEMBLE, members, megabytes, setup)
    return BuiltEnsemble(selected, members, rung)


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
    contract: Contract,
) -> ChosenModel:
    """By the contract's rule, among candidates within the limits, from the simplest on."""
    selection = ModelSelection.of(contract.model)
    direction = METRICS[contract.metric.name].direction
    by_name = {one.name: one for one in trained}
    values = {name: compared[name].score.value for name in by_name}
    best = best_of(values, direction)
    for one in ensembles:
        gain = compared[ENSEMBLE].gain
        is_better = gain_status(gain, direction) == "met"
        if selection.ensemble == "always" or is_better:
            why = (
                "its interval is above the best candidate" if is_better else "as the contract says"
            )
            said = f"of {len(one.selected.weights)} candidates: {why}, {best}"
            return ChosenModel(ENSEMBLE, said, one.members, one.selected.scores)
    name, reason = best, f"the best of {len(trained)}"
    if selection.choice == "simplest":
        name = choose_simplest(compared, list(by_name), direction)
        if name != best:
            reason = f"the simplest of {len(trained)} whose interval reaches the best, {best}"
    chosen = by_name[name]
    return ChosenModel(name, reason, chosen.members(1.0), chosen.scores)


def score_rungs(
    trained: Sequence[TrainedCandidate],
    ensembles: Sequence[BuiltEnsemble],
    rows: ComparedRows,
    contract: Contract,
) -> dict[str, ComparedScore]:
    """Scores of the candidates against the best of them, and of the ensemble against the same."""
    metric = contract.metric
    single = {one.name: one.scores for one in trained}
    compared = compare_candidates(single, rows, metric, contract.seed)
    for one in ensembles:
        values = {name: each.score.value for name, each in compared.items()}
        best = best_of(values, METRICS[metric.name].direction)
        pair = {best: single[best], ENSEMBLE: one.selected.scores}
        found = compare_candidates(pair, rows, metric, contract.seed, against=best)
        compared[ENSEMBLE] = found[ENSEMBLE]
    return compared
