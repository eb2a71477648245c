"""`fit` and `judge` of a contract as two steps, for Python: many fits on prepared data, one
judgement."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from trainwright.contract.sections.metric import Metric
from trainwright.core.errors import Mistake, Problem
from trainwright.core.threads import own_threads
from trainwright.doctor.damaged_runs import verifying_on_error
from trainwright.evaluation.evaluate import Scored, evaluate
from trainwright.evaluation.evaluation_result import Evaluation
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import Answers
from trainwright.run.folder.check_own_files import copy_finished
from trainwright.run.judging.evaluation_file import read_judged
from trainwright.run.measured_choices import Beforehand
from trainwright.run.opening.open_folder import FinishedRun, check_run_name, find_begun
from trainwright.run.prepare.prepare_run import Ready, need_test_rows
from trainwright.run.prepared_data import PreparedData
from trainwright.run.request import Additions, Request, need_ranks
from trainwright.run.run_context import Result, RunAttempt
from trainwright.run.screen import LoggedScreen, Screen, StageTimes
from trainwright.run.supervise.preemption import before_the_run, stop_on_signals
from trainwright.run.train import (
    TrainedModels,
    allot_budget,
    examine_data,
    fit,
    judge,
    open_watched_run,
)
from trainwright.tracking.events import Observer, Observers
from trainwright.tracking.run_folder import RunFolder


@final
@dataclass(frozen=True, slots=True)
class ContractFit:
    """Trained models of a contract, in a run that is not judged yet, and their predictions of the
    validation rows. `seconds` are those of the training, earlier attempts included, `price` that of
    the machine; 0 if unknown."""

    ready: Ready
    request: Request
    beforehand: Beforehand
    models: TrainedModels
    answers: Answers
    folder: RunFolder
    seconds: float
    price: float


def fit_contract(data: PreparedData, request: Request, screen: Screen) -> ContractFit:
    """Train the models of a contract on prepared data, and open no test row.

    Raises:
        As `train`.
    """
    with verifying_on_error(*find_begun(request, data.ready)):
        return _fit_planned(data, request, screen)


def _fit_planned(data: PreparedData, request: Request, screen: Screen) -> ContractFit:
    request = replace(request, added=_survivable(request.added, screen))
    at = RunAttempt(request, LoggedScreen(screen), StageTimes(request.asked_at))
    threads = data.ready.plan.contract.compute.threads
    with own_threads(threads), stop_on_signals(at.flag) as wake:
        with before_the_run(at.flag):
            check_run_name(request)
            ready = data.planned(request, at.stages, screen)
            need_ranks(ready.plan.contract)
            ready, beforehand = allot_budget(ready, at, looks=False)
        ready = replace(ready, seconds_before=at.stages.elapsed)
        with open_watched_run(at, ready, wake) as started:
            if isinstance(started, FinishedRun):
                raise Mistake(_judged_already(started.folder))
            ready = replace(ready, plan=started.plan)
            models = fit(ready, started, at)
            answers, validation = _score_validation(models, ready.plan.contract.metric)
            started.finish_fit(models.fitted.reason, models.fitted.kept_step, validation)
        for sinks in started.sinks:
            sinks.finish()
    record = started.record
    # Trainings of candidates are counted in that of their selection.
    spent = record.spent.to_json().items()
    seconds = sum(each for name, each in spent if "-candidate-" not in name)
    return ContractFit(
        ready, request, beforehand, models, answers, started.folder, seconds, record.price
    )


def judge_fit(fitted: ContractFit, screen: Screen) -> Result:
    """Open the test rows, once, and judge fitted models by their contract; the result of a run that
    was judged before.

    Raises:
        As `train`.
    """
    with verifying_on_error(fitted.folder):
        return _judge_run(fitted, screen)


def _judge_run(fitted: ContractFit, screen: Screen) -> Result:
    ready, models = fitted.ready, fitted.models
    need_test_rows(ready)
    request = replace(
        fitted.request, name=fitted.folder.name, resume=True, asked_at=time.monotonic()
    )
    at = RunAttempt(request, LoggedScreen(screen), StageTimes())
    threads = ready.plan.contract.compute.threads
    with own_threads(threads), stop_on_signals(at.flag) as wake:
        with open_watched_run(at, ready, wake) as started:
            if isinstance(started, FinishedRun):
                copy_finished(started.folder, ready.plan.contract, screen)
                return read_judged(started.folder)
            found = examine_data(ready, started, at, fitted.beforehand)
            result = judge(ready, models, found, started, at, fitted.beforehand)
            started.finish(result.verdict.status, models.fitted.reason, models.fitted.kept_step)
        copy_finished(started.folder, ready.plan.contract, screen)
    return result


def answers_on_validation(fitted: ContractFit) -> Answers:
    """Predictions of the run's model on the validation rows."""
    return fitted.answers


def _score_validation(models: TrainedModels, metric: Metric) -> tuple[Answers, Mapping[str, float]]:
    """Predictions of the validation rows, and the metric by its name, if it is defined on them."""
    prepared = models.prepared
    target, part = prepared.target, prepared.validation
    predictor = models.fitted.predictor
    scores = predictor.score(predictor.inputs_of(part, prepared.features))
    decided = predictor.decide(scores)
    answers = Scored(part=part, target=target, scores=scores, decided=decided).answers()
    value = measure(metric.name, answers, metric) if len(answers) else math.nan
    return answers, {metric.name: value} if math.isfinite(value) else {}


def evaluate_validation(fitted: ContractFit) -> Evaluation:
    """Metrics of the run's model on the validation rows, with intervals.

    Raises:
        Mistake: there are none.
    """
    contract, prepared = fitted.ready.plan.contract, fitted.models.prepared
    part = prepared.validation
    if not len(part):
        raise Mistake(
            Problem(
                "there are no validation rows to measure the model on",
                path="data.split.validation",
                fix="give them a share of the rows",
            )
        )
    predictor, notes = fitted.models.fitted.predictor, fitted.models.fitted.warnings
    with own_threads(contract.compute.threads):
        scores = predictor.score(predictor.inputs_of(part, prepared.features))
    scored = Scored(part, prepared.target, scores, notes=notes, decided=predictor.decide(scores))
    return evaluate(scored, contract.metric, contract.slices, contract.seed)


def _survivable(added: Additions, screen: Screen) -> Additions:
    """An error of the caller's observers does not end the training: the first is announced."""
    observers: Sequence[Observer] = ()
    if added.observers:
        observers = (Observers(added.observers, screen.say, survived=(Exception,)),)
    return replace(added, observers=observers)


def _judged_already(folder: RunFolder) -> Problem:
    return Problem(
        f"run {folder.name} is judged already",
        found=str(folder.path),
        fix="read its model with tw.load, or fit under another name",
    )
