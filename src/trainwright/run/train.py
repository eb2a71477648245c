"""`train`: from a contract to a judged model, one function per stage of the design."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from trainwright.contract.sections.data import Data
from trainwright.contract.sections.resume import Resume
from trainwright.core.errors import DataChanged
from trainwright.core.faultpoints import reached
from trainwright.core.formatting import show_price
from trainwright.core.stop_flag import StopFlag
from trainwright.data.sources.file_guard import FilesRead
from trainwright.data.subsample import sampled
from trainwright.data.types import Prepared
from trainwright.doctor.preflight import preflight
from trainwright.evaluation.baselines import Baselines
from trainwright.evaluation.evaluate import Scored
from trainwright.evaluation.seed_scores import score_seeds
from trainwright.predictor.bundle import write_bundle
from trainwright.predictor.predictor import Predictor
from trainwright.run.audit_data import Looked, record_found
from trainwright.run.extend.earlier_endings import doubt_of_extensions
from trainwright.run.extend.extendable import describe_further
from trainwright.run.folder.baseline_bundles import score_beside, write_baselines
from trainwright.run.folder.check_own_files import describe_owner
from trainwright.run.folder.copy_finished import copy_finished
from trainwright.run.judging.evaluation_file import read_judged, write_judged
from trainwright.run.judging.judge import judge_scored
from trainwright.run.judging.write_predictions import write_predictions
from trainwright.run.learners.fit_result import Fitted, check_ending
from trainwright.run.learners.learner import build_learner
from trainwright.run.measured_choices import settle
from trainwright.run.open_folder import FinishedRun, StartedRun, check_run_name, open_run
from trainwright.run.plan_budget import Beforehand, allot
from trainwright.run.prepare_run import Ready, Request, make_ready, without_undivided
from trainwright.run.repeats.train_folds import (
    HeldOut,
    describe_folds,
    share_of_budget,
    train_folds,
)
from trainwright.run.repeats.train_seeds import train_seeds
from trainwright.run.run_context import RunContext
from trainwright.run.run_result import Result
from trainwright.run.screen import Screen, StageTimes
from trainwright.run.summary import doubt_warnings, labelled
from trainwright.run.supervise.preemption_deadline import watch_grace
from trainwright.run.supervise.preemption_notice import stop_on_notice
from trainwright.run.supervise.signal_handlers import before_the_run, stop_on_signals
from trainwright.tracking.events import Noted
from trainwright.tracking.observers import Observers


def train(request: Request, screen: Screen) -> Result:
    """Train what the contract describes, judge it on the test rows, and keep the record.

    Raises:
        Mistake: nothing was written. Interrupted: the run can be resumed. NonFinite: the training
            was halted. StorageFailed, DataChanged, RunLocked, NoValidCheckpoint: as their names
            say.
    """
    flag = StopFlag()
    with stop_on_signals(flag) as wake:
        return _train(request, screen, flag, wake)


def _train(request: Request, screen: Screen, flag: StopFlag, wake: Callable[[], None]) -> Result:
    stages = StageTimes(request.asked_at)
    loading = stages.seconds["load"] = stages.elapsed
    since = time.time_ns()
    with before_the_run(flag):
        reached("start")
        check_run_name(request)
        ready = settle(request, make_ready(request, stages, screen), stages, screen)
        ready, beforehand = allot(request, ready, stages, screen, loading)
        reached("ready")
    files = FilesRead(ready.raw.facts.files, ready.document.source.folder, since)
    resume = ready.plan.contract.resume
    notices = stop_on_notice(resume, ready.document.source.folder, flag, wake)
    ready = replace(ready, seconds_before=stages.elapsed)
    with open_run(request, ready, screen) as started, notices as watch:
        if isinstance(started, FinishedRun):
            further = describe_further(started.folder, ready.plan.contract)
            text = f"{started.folder.name} is finished: nothing to do{further}"
            screen.say(labelled("note", text))
            copy_finished(started.folder, ready.plan.contract, screen)
            return read_judged(started.folder)
        ready = replace(ready, plan=started.plan)
        with stages("look"):
            found = beforehand.look(ready)
        findings = preflight(ready.plan, ready.prepared, found.faults, found.audited, request.runs)
        record_found(found, findings, started, screen)
        if watch.trouble:
            screen.say(labelled("warning", watch.trouble))
            Observers(started.observers, screen.say).observe(Noted("notice", watch.trouble))
        ready = without_undivided(ready)
        with stages("train"), flag.watched():
            grace = watch_grace(resume, started.observers, screen)
            observers = (*started.observers, grace)
            run = RunContext(
                folder=started.folder,
                observers=observers,
                screen=screen,
                flag=flag,
                goes_on=started.goes_on,
                identity=started.identity,
                spent=started.record.spent,
            )
            held_out = train_folds(ready, run, (*request.watchers, grace))
            others = train_seeds(ready, run, (*request.watchers, grace))
            fitted = build_learner(share_of_budget(ready.plan)).fit(ready.prepared, run)
        check_ending(fitted, flag)
        _check_data(files, resume, started, screen)
        trained = TrainedModels(fitted, held_out, others, found, beforehand)
        result = _judge(ready, trained, started, stages, screen)
        reached("finish")
        started.finish(result.verdict.status, fitted.reason, fitted.kept_step)
    copy_finished(started.folder, ready.plan.contract, screen)
    screen.say(labelled("trained", f"{fitted.reason} ({fitted.kind})"))
    price = f" · price {show_price(started.record.price)}" if started.record.price else ""
    screen.say(labelled("time", f"{stages.line()}{price}"))
    return result


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


@final
@dataclass(frozen=True, slots=True)
class TrainedModels:
    """The run's model, results of the folds, models of other seeds, data findings, and work done
    for a budget before training."""

    fitted: Fitted
    held_out: HeldOut
    others: Mapping[int, Predictor]
    found: Looked
    beforehand: Beforehand


def _judge(
    ready: Ready, trained: TrainedModels, started: StartedRun, stages: StageTimes, screen: Screen
) -> Result:
    """Open the test rows, once, and judge the model and the baselines by the contract."""
    contract, prepared = ready.plan.contract, ready.prepared
    fitted, held_out = trained.fitted, trained.held_out
    data = contract.data
    test_rows = ready.plan.allotment.test_rows
    about = describe_owner(started.folder, started.identity)
    write_bundle(fitted.predictor, started.folder.bundle, about)
    with stages("baselines"):
        rows = ready.plan.allotment.baseline_rows
        baselines = trained.beforehand.baselines(prepared, data, rows)
        write_baselines(baselines, started.folder)
    reached("judge")
    with stages("predict"):
        said = [*doubt_of_extensions(len(ready.plan.extensions)), *doubt_warnings(ready.raw.facts)]
        if test_rows != "all":
            said.append(_judged_rows(test_rows, len(prepared.test)))
            test = sampled(prepared.test, test_rows, contract.split_seed)
            prepared = replace(prepared, test=test)
        scored = _scored(prepared, fitted, baselines, held_out, data, said)
    with stages("judge"):
        of_seeds = {seed: one.score(prepared.test.inputs) for seed, one in trained.others.items()}
        by_seed = score_seeds(scored, of_seeds, contract.seed, contract.metric)
        scored = replace(scored, notes=(*scored.notes, *by_seed.doubt(contract.metric.name)))
    audited = trained.found.audited
    evaluation, verdict = judge_scored(ready, scored, held_out, audited, stages)
    result = Result(started.folder, evaluation, verdict, dict(stages.seconds))
    by_fold = held_out.by_fold(scored, contract.metric)
    if held_out.folds:
        screen.say(labelled("folds", describe_folds(by_fold, contract.metric.name)))
    if by_seed.seeds:
        screen.say(labelled("seeds", by_seed.describe(contract.metric.name)))
    write_predictions(scored, started.folder, data)
    write_judged(result, prepared.target, by_fold, by_seed)
    return result


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
    return Scored(
        part=prepared.test,
        target=prepared.target,
        scores=fitted.predictor.score(prepared.test.inputs),
        baselines=score_beside(baselines, prepared, data),
        shares=baselines.shares,
        notes=notes,
    )
