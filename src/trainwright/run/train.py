"""`train`: from a contract to a judged model, one function per stage of the design."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import final

from trainwright.contract.sections.data.data import Data
from trainwright.contract.sections.run_settings import Resume
from trainwright.core.errors import DataChanged
from trainwright.core.faultpoints import reached
from trainwright.core.files import Json
from trainwright.core.formatting import show_price
from trainwright.core.lazy_imports import need_torch
from trainwright.core.threads import own_threads
from trainwright.data.sources.local_files import FilesRead
from trainwright.data.subsample import sampled_judged
from trainwright.data.types import Prepared
from trainwright.doctor.preflight import preflight
from trainwright.evaluation.baselines.fit_baselines import Baselines
from trainwright.evaluation.evaluate import Scored
from trainwright.evaluation.evaluation_result import Evaluation
from trainwright.evaluation.fold_scores import FoldScores, SeedScores
from trainwright.evaluation.verdict import Verdict
from trainwright.predictor.bundle import add_metrics
from trainwright.predictor.predictor import Predictor
from trainwright.run.audit_data import Looked, record_found
from trainwright.run.extend.extendable import describe_further, describe_start, doubt_of_extensions
from trainwright.run.folder.check_own_files import copy_finished
from trainwright.run.folder.model_files import score_beside, write_baselines, write_model
from trainwright.run.judging.evaluation_file import read_judged, summarise_metrics, write_judged
from trainwright.run.judging.judge import (
    HeldOut,
    describe_folds,
    judge_calibration,
    judge_scored,
    predict_folds,
    predict_inputs,
)
from trainwright.run.judging.write_predictions import write_predictions
from trainwright.run.learners.learner import is_calibrated
from trainwright.run.library_fit import Fitted, check_ending
from trainwright.run.measured_choices import Beforehand, settle
from trainwright.run.opening.open_folder import (
    FinishedRun,
    StartedRun,
    check_run_name,
    describe_rows,
    find_begun,
    open_run,
)
from trainwright.run.prepare.prepare_run import Ready, make_ready, need_test_rows, without_undivided
from trainwright.run.repeats.train_folds import (
    TrainedFold,
    learner_of,
    score_other_seeds,
    train_folds,
    train_seeds,
)
from trainwright.run.request import Request, need_ranks
from trainwright.run.run_context import Result, RunAttempt, RunContext
from trainwright.run.screen import LoggedScreen, Screen, StageTimes, doubt_warnings, labelled
from trainwright.run.supervise.preemption import (
    before_the_run,
    stop_on_notice,
    stop_on_signals,
    watch_grace,
)
from trainwright.tracking.events import Noted, Observers
from trainwright.tracking.run_folder import RunFolder


def train(request: Request, screen: Screen) -> Result:
    """Train what the contract describes, judge it on the test rows, and keep the record.

    Raises:
        Mistake: nothing was written. Interrupted: the run can be resumed. NonFinite: the training
            was halted. StorageFailed, DataChanged, RunLocked, NoValidCheckpoint: as their names
            say.
    """
    screen = LoggedScreen(screen)
    at = RunAttempt(request, screen, StageTimes(request.asked_at))
    with own_threads(), stop_on_signals(at.flag) as wake:
        ready, beforehand = plan_run(at)
        with open_watched_run(at, ready, wake) as started:
            if isinstance(started, FinishedRun):
                return _read_finished(started.folder, ready, screen)
            ready = replace(ready, plan=started.plan)
            found = examine_data(ready, started, at, beforehand)
            ready = without_undivided(ready)
            models = fit(ready, started, at)
            result = judge(ready, models, found, started, at, beforehand)
            started.finish(result.verdict.status, models.fitted.reason, models.fitted.kept_step)
        copy_finished(started.folder, ready.plan.contract, screen)
    _say_trained(models.fitted, started, at)
    return result


def plan_run(at: RunAttempt) -> tuple[Ready, Beforehand]:
    """Prepare the data and resolve everything before the run's folder is opened. Writes nothing.

    Raises:
        Mistake: in the contract, the data or the installation. Interrupted: by a signal.
    """
    request, stages, screen = at.request, at.stages, at.screen
    loading = stages.seconds["load"] = stages.elapsed
    with before_the_run(at.flag):
        reached("start")
        check_run_name(request)
        ready = make_ready(request, stages, screen)
        need_test_rows(ready)
        need_ranks(ready.plan.contract)
        ready = settle(request, ready, stages, screen)
        if request.start and not ready.plan.start:
            # Imported here: few runs begin at a checkpoint of another one.
            need_torch("--from", "a start from a checkpoint")
            from trainwright.run.extend.starting_point import begin_at

            ready = begin_at(request, ready, find_begun(request, ready))
            screen.say(labelled("begins", f"at {describe_start(ready.plan.to_json())}"))
        ready, beforehand = allot_budget(ready, at, loading)
        reached("ready")
    return replace(ready, seconds_before=stages.elapsed), beforehand


def allot_budget(
    ready: Ready, at: RunAttempt, loading: float = 0.0, *, looks: bool = True
) -> tuple[Ready, Beforehand]:
    """The plan with its budget allotted, as `plan_budget.allot`; unchanged without a budget."""
    if math.isinf(ready.plan.contract.budget.seconds()):
        return ready, Beforehand()
    # Imported here: few runs have a budget.
    from trainwright.run.plan_budget import allot

    return allot(at.request, ready, at.stages, at.screen, loading, looks=looks)


@contextmanager
def open_watched_run(
    at: RunAttempt, ready: Ready, wake: Callable[[], None]
) -> Iterator[StartedRun | FinishedRun]:
    """The run's folder, as `open_run`; inside the block a preemption notice ends the run, as a
    signal does. `wake` is that of `stop_on_signals`."""
    resume, folder, screen = ready.plan.contract.resume, ready.document.source.folder, at.screen
    notices = stop_on_notice(resume, folder, at.flag, wake)
    opened = open_run(at.request, ready, screen)
    # As in `open_run`: its rows may have to leave memory.
    del ready
    with opened as started, notices as watch:
        if watch.trouble and isinstance(started, StartedRun):
            screen.say(labelled("warning", watch.trouble))
            Observers(started.observers, screen.say).observe(Noted("notice", watch.trouble))
        yield started


def examine_data(
    ready: Ready, started: StartedRun, at: RunAttempt, beforehand: Beforehand
) -> Looked:
    """Describe the rows, check and audit them, and report what was found."""
    describe_rows(started.folder, ready)
    with at.stages("look"):
        found = beforehand.look(ready)
    runs = at.request.runs
    findings = preflight(
        ready.plan, ready.raw.facts, ready.prepared, found.faults, found.audited, runs
    )
    record_found(found, findings, started, at.screen)
    return found


@final
@dataclass(frozen=True, slots=True)
class TrainedModels:
    """The run's model, the rows that it was trained on and is judged on, how it was trained again,
    and the models of the folds and of other seeds."""

    fitted: Fitted
    prepared: Prepared
    refit: Mapping[str, Json] = field(default_factory=dict)
    folds: tuple[TrainedFold, ...] = ()
    others: Mapping[int, Predictor] = field(default_factory=dict)


def fit(ready: Ready, started: StartedRun, at: RunAttempt) -> TrainedModels:
    """Train every model that the contract asks for. No test row is opened: that is for `judge`.

    Raises:
        Interrupted: the run can be resumed. NonFinite: a training was halted. StorageFailed: the
            disk.
    """
    screen, added = at.screen, at.request.added
    with at.stages("train"), at.flag.watched():
        grace = watch_grace(ready.plan.contract.resume, started.observers, screen)
        run = RunContext(
            folder=started.folder,
            observers=(*started.observers, grace),
            screen=screen,
            flag=at.flag,
            goes_on=started.goes_on,
            identity=started.identity,
            spent=started.record.spent,
            added=added,
        )
        watchers = (*at.request.watchers, *added.observers, grace)
        folds = train_folds(ready, run, watchers)
        others = train_seeds(ready, run, watchers)
        fitted = learner_of(ready.plan).fit(ready.prepared, run)
    check_ending(fitted, at.flag)
    models = TrainedModels(fitted, ready.prepared, folds=folds, others=others)
    if not ready.plan.contract.training.refit:
        return models
    # Imported here: few runs train twice.
    from trainwright.run.repeats.refit_model import train_again

    with at.stages("refit"), at.flag.watched():
        again = train_again(ready, fitted, run, watchers)
    return replace(models, fitted=again.fitted, prepared=again.prepared, refit=again.described)


def judge(
    ready: Ready,
    models: TrainedModels,
    found: Looked,
    started: StartedRun,
    at: RunAttempt,
    beforehand: Beforehand,
) -> Result:
    """Open the test rows, once, and judge the model and the baselines by the contract.

    Raises:
        DataChanged: the data has changed since it was read, and the contract does not allow it.
        StorageFailed: the disk.
    """
    contract, stages, screen = ready.plan.contract, at.stages, at.screen
    _check_data(ready.files, contract.resume, started, screen)
    ready = replace(ready, prepared=models.prepared)
    if models.refit:  # baselines that a budget measured know fewer rows, encoded otherwise
        beforehand = Beforehand(beforehand.found)
    baselines = _write_models(ready, models, started, stages, beforehand)
    reached("judge")
    with stages("predict"):
        held_out = predict_folds(models.folds, contract.data)
        prepared, said = _opened(ready, models.fitted.predictor, stages)
        scored = _scored(prepared, models.fitted, baselines, held_out, contract.data, said)
    with stages("judge"):
        by_seed = score_other_seeds(models.others, prepared, scored, contract)
        scored = replace(scored, notes=(*scored.notes, *by_seed.doubt(contract.metric.name)))
    evaluation, verdict = judge_scored(ready, scored, held_out, found.audited, stages)
    write_predictions(scored, started.folder, contract.data)
    judged = (verdict, evaluation)
    verdict, evaluation, texts = _judge_further(ready, models, started, stages, judged, prepared)
    result = Result(started.folder, evaluation, verdict, dict(stages.seconds), started.sinks)
    by_fold = held_out.by_fold(scored, contract.metric)
    _say_repeats(by_fold, by_seed, contract.metric.name, screen)
    effect = {}
    if is_calibrated(contract):
        with stages("judge"):
            effect = judge_calibration(
                models.fitted.predictor.calibration, scored, contract, screen
            )
    add_metrics(started.folder.bundle, summarise_metrics(evaluation))
    write_judged(result, prepared.target, by_fold, by_seed, effect, models.refit, texts)
    reached("finish")
    return result


def _judge_further(
    ready: Ready,
    models: TrainedModels,
    started: StartedRun,
    stages: StageTimes,
    judged: tuple[Verdict, Evaluation],
    prepared: Prepared,
) -> tuple[Verdict, Evaluation, Mapping[str, Json]]:
    """What is judged beside predictions: limits and the purpose of the model, and texts that a
    decoder writes."""
    contract = ready.plan.contract
    has_clauses = contract.serving.is_limited or contract.purpose != "unstated"
    if not (has_clauses or contract.model.traits.writes):
        return *judged, {}
    # Imported here: few contracts have limits or a purpose, and only decoders write texts.
    from trainwright.run.judging.judge_further import judge_further

    model = (models.fitted.predictor, started.folder)
    return judge_further(ready, model, prepared.test, stages, judged)


def _say_repeats(by_fold: FoldScores, by_seed: SeedScores, metric: str, screen: Screen) -> None:
    if by_fold.folds:
        screen.say(labelled("folds", describe_folds(by_fold, metric)))
    if by_seed.seeds:
        screen.say(labelled("seeds", by_seed.describe(metric)))


def _read_finished(folder: RunFolder, ready: Ready, screen: Screen) -> Result:
    """Result of a run that was judged before."""
    further = describe_further(folder, ready.plan.contract)
    screen.say(labelled("note", f"{folder.name} is finished: nothing to do{further}"))
    copy_finished(folder, ready.plan.contract, screen)
    return read_judged(folder)


def _say_trained(fitted: Fitted, started: StartedRun, at: RunAttempt) -> None:
    at.screen.say(labelled("trained", f"{fitted.reason} ({fitted.kind})"))
    price = f" · price {show_price(started.record.price)}" if started.record.price else ""
    at.screen.say(labelled("time", f"{at.stages.line()}{price}"))


def _check_data(files: FilesRead, resume: Resume, started: StartedRun, screen: Screen) -> None:
    """Refuse to judge a model whose data has changed: it could not be reproduced, and the record
    would name a version that no longer exists.

    Raises:
        DataChanged: a file differs from what was read, and the contract does not allow it.
    """
    if not (changed := ", ".join(files.changed())):
        return
    if resume.data_changed == "refuse":
        raise DataChanged(
            f"the data of run {started.folder.name} has changed while it was trained: {changed}. "
            "Put the files back and resume it, or start a new run; with "
            "resume.data_changed: record it would have been judged"
        )
    note = f"the data has changed while the run was trained: {changed}"
    screen.say(labelled("note", note))
    Observers(started.observers, screen.say).observe(Noted("data_changed", note))


def _write_models(
    ready: Ready,
    models: TrainedModels,
    started: StartedRun,
    stages: StageTimes,
    beforehand: Beforehand,
) -> Baselines:
    """Write the bundle of the run's model, fit the baselines and write theirs."""
    contract, predictor = ready.plan.contract, models.fitted.predictor
    write_model(predictor, ready.prepared, contract, started.folder, started.identity)
    with stages("baselines"):
        rows = ready.plan.allotment.baseline_rows
        baselines = beforehand.baselines(ready.prepared, ready.plan.contract.data, rows)
        write_baselines(baselines, started.folder)
    return baselines


def _opened(ready: Ready, model: Predictor, stages: StageTimes) -> tuple[Prepared, list[str]]:
    """The data with the test rows that are judged: all, or those that fit into the budget; and
    warnings of the data."""
    plan, prepared = ready.plan, ready.prepared
    said = [*doubt_of_extensions(len(plan.extensions)), *doubt_warnings(ready.raw.facts)]
    rows = plan.allotment.test_rows
    if plan.allotment.is_made:
        # Imported here: few runs have a budget.
        from trainwright.run.plan_budget import limit_test_rows

        rows = limit_test_rows(ready, model, stages.elapsed)
    if rows == "all":
        return prepared, said
    test = sampled_judged(prepared.test, prepared.target, rows, plan.contract.split_seed)
    said.append(_judged_rows(len(test), len(prepared.test)))
    return replace(prepared, test=test), said


def _judged_rows(rows: int, of: int) -> str:
    return (
        f"judged on {rows:,} of {of:,} test rows, drawn with the contract's split_seed: more did "
        "not fit into the budget, and the intervals are those of so few rows"
    )


def _scored(
    prepared: Prepared,
    fitted: Fitted,
    baselines: Baselines,
    held_out: HeldOut,
    data: Data,
    said: Sequence[str],
) -> Scored:
    """Scores of the test rows; with folds, each row is scored by the model that did not train on
    it. `said` are warnings of the data."""
    notes = (*said, *fitted.warnings, *baselines.warnings)
    if held_out.folds:
        return held_out.scored(prepared, baselines.shares, notes)
    inputs = fitted.predictor.inputs_of(prepared.test, prepared.features)
    predicted = predict_inputs(fitted.predictor, inputs)
    return Scored(
        part=prepared.test,
        target=prepared.target,
        scores=predicted.scores,
        decided=predicted.decided,
        uncalibrated=predicted.uncalibrated,
        baselines=score_beside(baselines, prepared, data, fitted.predictor),
        shares=baselines.shares,
        notes=(*notes, *predicted.notes),
    )
