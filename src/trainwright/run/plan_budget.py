"""Allotment of a budget before training, based on measurements of the run's own work."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel

from trainwright.contract.reading.read_contract import placed
from trainwright.contract.sections.data.data import fold_count
from trainwright.core.errors import ContractMistake
from trainwright.core.files import Json
from trainwright.core.threads import MachineLoad
from trainwright.data.dispatch import modality_of
from trainwright.data.subsample import sampled
from trainwright.evaluation.baselines.fit_baselines import Baselines, seen_rows
from trainwright.evaluation.evaluate import Scored, evaluate
from trainwright.model.input_shape import shape_of
from trainwright.planner.budget_allotment import (
    ENDING_SECONDS,
    LEAST_JUDGED,
    Allotment,
    Rows,
    Speeds,
    TooSmallError,
)
from trainwright.planner.fit_to_budget import (
    BY_BUDGET,
    PartRows,
    batch_that_fits,
    batch_to_probe,
    budget_problem,
    fit_into_budget,
    is_shared_out,
)
from trainwright.planner.resolve.compute_choices import WORKERS
from trainwright.planner.resolve.rank_choices import STRATEGY
from trainwright.planner.resolve.training_choices import Choice
from trainwright.predictor.predictor import Predictor
from trainwright.run.audit_data import Looked, look_at_data, look_uncached
from trainwright.run.folder.model_files import fit_beside
from trainwright.run.folder.planned_contract import read_started
from trainwright.run.measured_choices import Beforehand, as_started
from trainwright.run.opening.open_folder import find_begun
from trainwright.run.prepare.prepare_run import Ready
from trainwright.run.prepare.replan import replan
from trainwright.run.request import Request
from trainwright.run.screen import Screen, StageTimes, labelled
from trainwright.run.trial.tree_times import StepTimes, time_library, time_trees

S = TypeVar("S", bound=BaseModel)

_SHARE, _LEAST_REHEARSAL, _MOST_REHEARSAL = 0.02, 0.2, 10.0
"""Share and seconds of the budget for each measurement of steps."""

_MOST_SHARE, _PROBED_ROWS, _LOOKED_ROWS, _WORTHWHILE = 0.1, 500, 4000, 3
_RESAMPLES, _JUDGED_ROWS, _TIMED_ROWS, _GROWTH = 100, 5000, 50, 4


def allot(
    request: Request,
    ready: Ready,
    stages: StageTimes,
    screen: Screen,
    loading: float = 0.0,
    *,
    looks: bool = True,
) -> tuple[Ready, Beforehand]:
    """The plan with its budget allotted, and the work done for that. A resumed run keeps its
    original allotment. `loading` is the program's import time in seconds, an estimate for the
    report's libraries, which are not loaded yet. Without `looks` the checks of the data are left to
    `judge`, as they compare training rows with test rows. Writes nothing.

    Raises:
        Mistake: the budget is too small for the run, or there is no run to resume.
    """
    if not is_shared_out(ready.plan.contract):
        return ready, Beforehand()
    for folder in find_begun(request, ready):
        kept = Allotment.from_json(read_started(folder).get("budget", {}))
        return _with_allotment(ready, kept), Beforehand()
    try:
        return _shared_out(ready, stages, screen, loading, looks=looks)
    except TooSmallError as error:
        problem = budget_problem(ready.plan.contract.budget, stages.line(), error.seconds)
        raise ContractMistake(placed([problem], ready.document.source)) from error


def _shared_out(
    ready: Ready, stages: StageTimes, screen: Screen, loading: float, *, looks: bool
) -> tuple[Ready, Beforehand]:
    limit, load = ready.plan.contract.budget.seconds(), MachineLoad()
    with stages("look"):
        found = (_look(ready, limit),) if looks else ()
    with stages("baselines"):
        rows = _baseline_rows(ready, limit)
        started = time.perf_counter()
        baselines = fit_beside(ready.prepared, ready.plan.contract.data, rows)
        took = time.perf_counter() - started
    with stages("rehearse"):
        ready, times = _rehearsed(ready, stages, limit)
        speeds = _speeds(ready, times, baselines, took)
    judging = speeds.judging + loading
    speeds = replace(speeds, spent=stages.elapsed, judging=judging, load=load.factor)
    parts = PartRows(len(ready.prepared.validation), len(ready.prepared.test))
    fitted = fit_into_budget(ready.document, ready.plan, speeds, parts, rows)
    faults = [fault for one in found for fault in one.faults]
    sampled_rows = [one.message for one in faults if one.kind == "sampled"]
    for line in (*fitted.lines, *sampled_rows):
        screen.say(labelled("budget", line))
    return _with_allotment(ready, fitted), Beforehand(found, (baselines,))


def _look(ready: Ready, limit: float) -> Looked:
    """Findings on all rows if that takes a small share of the budget; otherwise, for a table, on
    fewer."""
    rows = ready.raw.facts.rows
    if not modality_of(ready.plan.contract.data.kind).is_sampled or rows <= _LOOKED_ROWS:
        return look_at_data(ready)
    started = time.perf_counter()
    found = look_uncached(ready, _LOOKED_ROWS)
    fit = int(_MOST_SHARE * limit / (time.perf_counter() - started) * _LOOKED_ROWS)
    if fit < _WORTHWHILE * _LOOKED_ROWS:
        return found
    return look_at_data(ready, "all" if fit >= rows else fit)


def _baseline_rows(ready: Ready, limit: float) -> Rows:
    """Rows that the linear baseline is fitted on: all if that takes a small share of the budget, or
    if the target is to be better than it, since a baseline fitted on fewer rows is easier to
    beat."""
    if ready.plan.contract.metric.target in ("every_baseline", "linear"):
        return "all"
    seen, most = seen_rows(ready.prepared), _MOST_SHARE * limit
    rows = _PROBED_ROWS
    while rows < seen:
        started = time.perf_counter()
        fit_beside(ready.prepared, ready.plan.contract.data, rows)
        seconds = time.perf_counter() - started
        if seconds * seen / rows <= most:
            break
        if seconds * _GROWTH > most:
            return max(_PROBED_ROWS, int(most / seconds * rows))
        # Few rows take about as long as fewer; only larger samples show how the time grows.
        rows *= _GROWTH
    return "all"


def _rehearsed(ready: Ready, stages: StageTimes, limit: float) -> tuple[Ready, StepTimes]:
    """Training times, and the plan with a batch size that leaves enough steps."""
    seconds = min(_MOST_REHEARSAL, max(_LEAST_REHEARSAL, _SHARE * limit))
    section = ready.plan.contract.model
    if section.traits.rounds:
        return ready, time_trees(ready.plan, ready.prepared, seconds)
    if section.traits.trained_by == "library" and not section.traits.is_linear:
        return ready, time_library(ready.plan, ready.prepared)
    if not section.is_loop_trained:
        part = sampled(ready.prepared.validation, _PROBED_ROWS, ready.plan.contract.seed)
        scores = np.full((len(part), ready.prepared.target.outputs), 1.0)
        return ready, StepTimes(0.0, 0.0, 0.0, 0.0, 0.0, part, scores / scores.shape[1])
    # Imported here: only networks need torch.
    from trainwright.run.trial.rehearse import time_steps

    if settings := batch_to_probe(ready.document, ready.plan):
        small = _with_settings(ready, settings)
        times = time_steps(small.plan, ready.prepared, seconds)
        chosen = batch_that_fits(ready.plan, times.step, limit - stages.elapsed)
        if chosen == settings:
            return small, times
        ready = _with_settings(ready, chosen) if chosen else ready
    return ready, time_steps(ready.plan, ready.prepared, seconds)


def _speeds(ready: Ready, times: StepTimes, baselines: Baselines, fitting: float) -> Speeds:
    """Measured seconds of all remaining work."""
    contract, prepared = ready.plan.contract, ready.prepared
    tests, folds = len(prepared.test), fold_count(contract.data)
    started = time.perf_counter()
    beside = baselines.scores(times.part)
    beside_row = (time.perf_counter() - started) / max(1, len(times.part))
    judging = _time_judging(ready, times, beside)
    grows = bool(contract.model.traits.rounds)
    exchange = _time_exchange(ready)
    step = times.step + exchange + (times.score_row * tests if grows else 0.0)
    is_linear = contract.model.traits.is_linear
    score_row = 0.0 if grows else times.score_row
    return Speeds(
        spent=0.0,
        step=step,
        start=fitting if is_linear else times.start,
        save=times.save,
        validation_row=times.validation_row,
        judged_row=score_row + beside_row + judging / max(1, tests),
        judging=folds * fitting,
        exchange=exchange,
    )


def _time_exchange(ready: Ready) -> float:
    """Seconds in which the ranks exchange tensors in a step, which are not in what one of them
    measures alone."""
    contract = ready.plan.contract
    if contract.distributed.strategy == "single" or not contract.model.is_loop_trained:
        return 0.0
    # Imported here: most runs have one process.
    from trainwright.planner.communication import exchange_seconds
    from trainwright.run.ranks.follow import measure_link_of_ranks

    shape = shape_of(ready.prepared)
    return exchange_seconds(contract, contract.model, shape, measure_link_of_ranks())


def _time_judging(ready: Ready, times: StepTimes, beside: Mapping[str, Any]) -> float:
    """Seconds that metrics and intervals of the test rows take: measured on validation rows with
    few resamples, whatever their scores are."""
    contract, prepared = ready.plan.contract, ready.prepared
    tests = len(prepared.test)
    part = sampled(prepared.validation, min(tests, _JUDGED_ROWS), contract.seed)
    if not tests or not len(part):
        return 0.0
    again = np.resize(np.arange(len(times.part)), len(part))
    baselines = {name: scores[again] for name, scores in beside.items()}
    scored = Scored(part, prepared.target, times.scores[again], baselines)
    took = []
    for resamples in (_RESAMPLES, 2 * _RESAMPLES):
        metric = contract.metric.model_copy(update={"resamples": resamples})
        started = time.perf_counter()
        evaluate(scored, metric, contract.slices, contract.seed)
        took.append(time.perf_counter() - started)
    more = max(0.0, took[1] - took[0]) * (contract.metric.resamples / _RESAMPLES - 1)
    return (took[0] + more) * tests / len(part)


def limit_test_rows(ready: Ready, predictor: Predictor, elapsed: float) -> Rows:
    """Test rows that can be judged in what is left of the budget: those of the plan, or as many as
    fit by the time that the trained model takes now."""
    plan, prepared = ready.plan, ready.prepared
    allotment, data = plan.allotment, plan.contract.data
    planned = allotment.test_rows
    part = sampled(prepared.validation, _TIMED_ROWS, plan.contract.seed)
    if not (data.samples_test and len(part)) or fold_count(data):
        return planned
    started = time.perf_counter()
    predictor.score_part(part)
    row = (time.perf_counter() - started) / len(part)
    row = max(row, float(allotment.measured["judged_row"]))
    ending = ENDING_SECONDS * float(allotment.measured.get("load", 1.0))
    fit = max(LEAST_JUDGED, int((allotment.limit_seconds - elapsed - ending) / row))
    most = len(prepared.test) if planned == "all" else planned
    return planned if fit >= most else fit


def _with_allotment(ready: Ready, allotment: Allotment) -> Ready:
    ready = _with_settings(ready, allotment.settings)
    return replace(ready, plan=replace(ready.plan, allotment=allotment))


def _with_settings(ready: Ready, settings: Mapping[str, Json]) -> Ready:
    """Plan of the contract with other values at some paths, keeping all measurements of the earlier
    plan.

    Raises:
        ContractMistake: the contract does not allow them.
    """
    if not settings:
        return ready
    document, before = ready.document, ready.plan
    contract = document.contract
    for path, value in settings.items():
        contract = _with_value(contract, path, value)
    decided = replan(ready, contract)
    if contract.model.is_loop_trained:
        decided = as_started(decided, document.contract, before.to_json())
    measured = [choice for choice in before.choices if choice.path == STRATEGY]
    if decided.contract.data.num_workers == "auto":
        decided = decided.with_workers(next(c for c in before.choices if c.path == WORKERS))
    said = tuple(Choice(path, value, BY_BUDGET) for path, value in settings.items())
    return replace(ready, plan=replace(decided, choices=(*decided.choices, *measured, *said)))


def _with_value(section: S, path: str, value: Json) -> S:
    """A section with another value at a path."""
    name, _, rest = path.partition(".")
    inner = _with_value(getattr(section, name), rest, value) if rest else value
    return section.model_copy(update={name: inner})
