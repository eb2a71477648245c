"""A contract becomes a judged model: the picture of the design, a name for each arrow."""

from __future__ import annotations

from collections.abc import Callable

from trainwright.contract.data import TableData
from trainwright.core.errors import Interrupted, NonFinite
from trainwright.core.faultpoints import reached
from trainwright.core.files import write_json
from trainwright.core.flag import StopFlag
from trainwright.doctor.preflight import preflight
from trainwright.evaluation.baselines import fit_baselines
from trainwright.evaluation.evaluate import Scored, evaluate
from trainwright.evaluation.verdict import judge
from trainwright.predictor.bundle import write_bundle
from trainwright.run.baselines import write_baselines
from trainwright.run.context import RunContext
from trainwright.run.fitted import Fitted
from trainwright.run.folders import FinishedRun, StartedRun, open_run
from trainwright.run.grace import watch_grace
from trainwright.run.interrupt import before_the_run, stop_on_signals
from trainwright.run.judged import read_judged, write_judged
from trainwright.run.learners import build_learner
from trainwright.run.notices import stop_on_notice
from trainwright.run.ready import Ready, Request, make_ready
from trainwright.run.result import Result
from trainwright.run.settling import settle
from trainwright.run.stages import Screen, Stages
from trainwright.run.summary import labelled
from trainwright.tracking.events import Noted
from trainwright.tracking.observers import Observers


def train(request: Request, screen: Screen) -> Result:
    """Train what the contract describes, judge it on the test rows, and keep the record.

    Raises:
        Mistake: nothing was written. Interrupted: the run can be resumed. NonFinite: the training
        was halted. StorageFailed, DataChanged, RunLocked, NoValidCheckpoint: as their names say.
    """
    flag = StopFlag()
    with stop_on_signals(flag) as wake:
        return _train(request, screen, flag, wake)


def _train(request: Request, screen: Screen, flag: StopFlag, wake: Callable[[], None]) -> Result:
    stages = Stages()
    with before_the_run():
        reached("start")
        ready = settle(request, make_ready(request, stages, screen), stages, screen)
        reached("ready")
    resume = ready.plan.contract.resume
    with stop_on_notice(resume, flag, wake) as watch, open_run(request, ready, screen) as started:
        if isinstance(started, FinishedRun):
            screen.say(labelled("note", f"{started.folder.name} is finished: nothing to do"))
            return read_judged(started.folder)
        for warning in _look(ready, request, started):
            screen.say(labelled("warning", warning))
        if watch.trouble:
            screen.say(labelled("warning", watch.trouble))
            Observers(started.observers, screen.say).observe(Noted("notice", watch.trouble))
        with stages("train"), flag.watched():
            observers = watch_grace(resume, started.observers, screen)
            run = RunContext(started.folder, observers, screen, flag, goes_on=request.resume)
            fitted = build_learner(ready.plan).fit(ready.prepared, run)
        _check_ending(fitted, flag)
        result = _judge(ready, fitted, started, stages)
        reached("finish")
        started.finish(result.verdict.status, fitted.reason)
    screen.say(labelled("trained", f"{fitted.reason} ({fitted.kind})"))
    screen.say(labelled("time", stages.line()))
    return result


def _look(ready: Ready, request: Request, started: StartedRun) -> list[str]:
    """Record what the checks find before budget is spent; what a person should look at."""
    findings = preflight(ready.plan, ready.prepared, request.runs)
    write_json(started.folder.preflight, [finding.to_json() for finding in findings])
    return [finding.message for finding in findings if finding.severity != "info"]


def _judge(ready: Ready, fitted: Fitted, started: StartedRun, stages: Stages) -> Result:
    """Open the test rows, once, and hold the model and the baselines to the contract."""
    contract, prepared = ready.plan.contract, ready.prepared
    data = contract.data
    features = data.features if isinstance(data, TableData) else None
    write_bundle(fitted.predictor, started.folder.bundle, {"run": started.folder.name})
    with stages("baselines"):
        baselines = fit_baselines(prepared, features)
        write_baselines(baselines, started.folder)
    reached("judge")
    with stages("judge"):
        scored = Scored(
            part=prepared.test,
            target=prepared.target,
            scores=fitted.predictor.score(prepared.test.inputs),
            baselines=baselines.scores(prepared.test),
            shares=baselines.shares,
            notes=(*fitted.warnings, *baselines.warnings),
        )
        evaluation = evaluate(scored, contract.metric, contract.slices, contract.seed)
        verdict = judge(contract.metric, contract.slices, evaluation)
    result = Result(started.folder, evaluation, verdict, dict(stages.seconds))
    write_judged(result, prepared.target)
    return result


def _check_ending(fitted: Fitted, flag: StopFlag) -> None:
    """Raise for a training that did not come to its end."""
    if fitted.kind == "interrupted" or flag.is_up:
        raise Interrupted(f"stopped by {flag.why or fitted.reason}")
    if fitted.kind == "halted":
        raise NonFinite(f"the training was halted: {fitted.reason}")
