"""The second training of a run, on training and validation rows.

It is in `refits/01` of the run's folder and has checkpoints, signals and a bundle of its own: an
interrupted run resumes in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

from trainwright.contract.sections.data.data import TableData
from trainwright.contract.sections.training.stop import Stop
from trainwright.core.files import Json, read_json
from trainwright.core.formatting import many, show_number
from trainwright.core.hashing import hash_value
from trainwright.data.dispatch import prepare_joined
from trainwright.data.types import Prepared
from trainwright.evaluation.metric_values import measure
from trainwright.evaluation.predictions import answers_of
from trainwright.planner.estimate import scheduled_steps
from trainwright.planner.plan import Plan
from trainwright.predictor.bundle import MANIFEST
from trainwright.run.contract_target import with_contract_target
from trainwright.run.learners.fit_result import Fitted
from trainwright.run.learners.inner_training import inner_predictor
from trainwright.run.learners.learner import build_uncalibrated
from trainwright.run.prepare_run import Ready, decided_task, text_reading
from trainwright.run.repeats.train_folds import share_of_budget
from trainwright.run.run_context import RunContext
from trainwright.run.summary import labelled
from trainwright.tracking.observers import Observer
from trainwright.tracking.unfinished import remove_unfinished_of_run


@final
@dataclass(frozen=True, slots=True)
class Refitted:
    """The run's model, the rows that it is judged on and was trained on, and what `evaluation.json`
    says of its two trainings; empty for a model that was trained once."""

    fitted: Fitted
    prepared: Prepared
    described: Mapping[str, Json] = field(default_factory=dict)


def train_again(
    ready: Ready, fitted: Fitted, run: RunContext, watchers: Sequence[Observer]
) -> Refitted:
    """Train as long as `fitted` took, on training and validation rows. The calibration stays that
    of the first model; `watchers` observe both trainings.

    Raises:
        Interrupted: the run can be resumed. NonFinite: the training was halted.
    """
    plan = ready.plan
    prepared = _joined(ready)
    again = plan_again_with(plan, fitted.length, len(ready.prepared.train))
    version = hash_value({"data": prepared.version, "length": fitted.length})
    folder = run.folder.refit(version)
    remove_unfinished_of_run(folder)
    described = _described(ready, fitted, len(prepared.train))
    run.screen.say(labelled("refit", _line(described)))
    inner = replace(run, observers=tuple(watchers))
    learner = build_uncalibrated(share_of_budget(again))
    predictor, notes = inner_predictor(learner, prepared, inner, folder)
    if read_json(folder.bundle / MANIFEST)["about"]["ended"] == "budget":
        warning = (
            "the budget ended the second training: the run's model is the first, trained on "
            f"{many(len(ready.prepared.train), 'row')}"
        )
        kept = replace(fitted, warnings=(*fitted.warnings, warning))
        return Refitted(kept, ready.prepared)
    predictor = replace(predictor, calibration=fitted.predictor.calibration)
    reason = f"{fitted.reason}; trained again on {many(len(prepared.train), 'row')}"
    warnings = (*fitted.warnings, *notes)
    found = replace(fitted, predictor=predictor, reason=reason, warnings=warnings)
    return Refitted(found, prepared, described)


def plan_again_with(plan: Plan, length: int, train_rows: int) -> Plan:
    """Plan of the second training: as many rounds or updates, on the schedule of the first, which
    had so many `train_rows`; nothing is fitted to validation rows."""
    contract, model = plan.contract, plan.contract.model
    changes: dict[str, object] = {"calibration": "none", "threshold": 0.5}
    if limit := model.traits.rounds:
        model = model.model_copy(update={limit: length})
    if model.is_loop_trained:
        spans = scheduled_steps(contract, train_rows)
        stop = Stop(max_steps=length, schedule_spans=spans)
        changes |= {"early_stopping": "off", "stop": stop}
    training = contract.training.model_copy(update=changes)
    updated = contract.model_copy(update={"model": model, "training": training})
    return replace(plan, contract=updated)


def _joined(ready: Ready) -> Prepared:
    """Training and validation rows as the training rows. The positive class stays that of the
    first training: the rarer one may be another among more rows."""
    contract, first = ready.plan.contract, ready.prepared
    section = TableData.of(contract.data)
    if len(first.target.classes) == 2:
        positive = first.target.classes[first.target.positive_code]
        section = section.model_copy(update={"positive": positive})
    texts = text_reading(contract, ready.document.source.folder)
    task, seed = decided_task(contract), contract.split_seed
    prepared = prepare_joined(ready.raw, section, task, seed, texts)
    prepared = with_contract_target(prepared, contract)
    assert prepared.target.classes == first.target.classes, "training rows have every class"
    return prepared


def _described(ready: Ready, fitted: Fitted, rows: int) -> dict[str, Json]:
    """Both trainings, and the first model's metric on the validation rows: the second has none."""
    prepared, contract = ready.prepared, ready.plan.contract
    part, predictor, metric = prepared.validation, fitted.predictor, contract.metric
    scores = predictor.score(part.inputs)
    decided = predictor.decide(scores)
    target = prepared.target
    positive, costs = target.positive_code, target.costs
    answers = answers_of(part.target, scores, positive, decided=decided, costs=costs)
    return {
        "rows": rows,
        "first_rows": len(prepared.train),
        "validation_rows": len(part),
        "length": fitted.length,
        "unit": contract.model.traits.unit,
        "first_on_validation": {metric.name: measure(metric.name, answers, metric)},
    }


def _line(described: Mapping[str, Json]) -> str:
    """The line of the screen that announces the second training."""
    name, value = next(iter(described["first_on_validation"].items()))
    rows = f"{described['rows']:,} rows (training and validation)"
    length = f" · {many(described['length'], described['unit'])}" if described["length"] else ""
    before = f"{described['validation_rows']:,} validation rows"
    first = f"before it {name} {show_number(value)} on {before}, none are left"
    return f"{rows}{length} · {first}"
