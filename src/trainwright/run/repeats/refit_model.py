"""The second training of a run, on training and validation rows.

It is in `refits/01` of the run's folder and has checkpoints, signals and a bundle of its own: an
interrupted run resumes in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.files import Json, hash_value, read_json
from trainwright.core.formatting import many, show_number
from trainwright.data.dispatch import prepare_joined
from trainwright.data.types import Prepared
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import answers_of
from trainwright.predictor.bundle import MANIFEST
from trainwright.run.learners.inner_training import inner_predictor, plan_again_with
from trainwright.run.learners.learner import Learner, build_uncalibrated
from trainwright.run.library_fit import Fitted
from trainwright.run.prepare.contract_target import with_contract_target
from trainwright.run.prepare.prepare_run import Ready, decided_task, text_reading
from trainwright.run.repeats.train_folds import share_of_budget
from trainwright.run.run_context import RunContext
from trainwright.run.screen import labelled
from trainwright.tracking.checksums import remove_unfinished_of_run
from trainwright.tracking.events import Observer


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
    prepared = _joined(ready)
    learner, length = _learner_again(ready, fitted, run)
    folder = run.folder.refit(hash_value({"data": prepared.version, "length": length}))
    remove_unfinished_of_run(folder)
    described = _described(ready, fitted, len(prepared.train))
    run.screen.say(labelled("refit", _line(described)))
    inner = replace(run, observers=tuple(watchers))
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


def _learner_again(ready: Ready, fitted: Fitted, run: RunContext) -> tuple[Learner, Json]:
    """Learner of the second training, and what decides how long it is."""
    plan = share_of_budget(ready.plan)
    if plan.contract.model.is_selection:
        # Imported here: few runs select a model.
        from trainwright.run.selection.selection_again import SelectionAgain

        again = SelectionAgain.of(plan, fitted, ready.prepared, run)
        return again, again.lengths
    plan = plan_again_with(plan, fitted.length, len(ready.prepared.train))
    length: Json = list(fitted.rounds) or fitted.length
    return build_uncalibrated(plan, fitted.rounds), length


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
    assert prepared.target.is_same(first.target), "training rows have every class and label"
    return prepared


def _described(ready: Ready, fitted: Fitted, rows: int) -> dict[str, Json]:
    """Both trainings, and the first model's metric on the validation rows: the second has none."""
    prepared, contract = ready.prepared, ready.plan.contract
    part, predictor, metric = prepared.validation, fitted.predictor, contract.metric
    scores = predictor.score(predictor.inputs_of(part, prepared.features))
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
