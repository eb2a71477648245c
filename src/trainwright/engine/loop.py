"""Training loop. Exactly three things influence a run: schedules before a step, the guard after it,
and stop rules between steps. Everything else only observes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import assert_never

import torch

from trainwright.checkpoint.keeping.retention import NOT_SCORED, NotScored
from trainwright.checkpoint.state import StateParts
from trainwright.checkpoint.states.random_state import RandomState
from trainwright.checkpoint.store import Loaded, NoCheckpoint
from trainwright.core.errors import Mistake, Problem
from trainwright.core.faultpoints import reached
from trainwright.core.progress import Progress
from trainwright.engine.execution.numeric_env import why_not_exact
from trainwright.engine.guards.step_guard import Drop, Halt, Keep, RollBack
from trainwright.engine.job import Job, Never, read_values
from trainwright.engine.restore_state import progress_of, restoring
from trainwright.engine.saving import Saves
from trainwright.engine.stopping.stop_rules import StopReason
from trainwright.tracking.events import (
    Ended,
    Event,
    Noted,
    Resumed,
    RolledBack,
    StepDropped,
    StepKept,
    StepOutcome,
    Validated,
)


def fit(job: Job) -> Ended:
    """Train until a stop rule or the guard ends the run; resumes from the newest valid checkpoint.

    A checkpoint is written at step 0 and whenever the run ends. An exception from a step, an
    observer or the storage propagates; the last checkpoint then remains the newest.
    """
    with Saves(job, partial(_tell, job)) as saves:
        progress = _resume(job, saves)
        while (reason := _stop_reason(job, progress)) is None:
            for knob in job.knobs:
                knob(progress)
            work = job.feed.next_step()
            with job.probes.around(work):
                outcome = job.step(work)
            for one in job.outcome_observers:
                one.take_outcome(outcome)
            match job.guard.judge(outcome):
                case Keep():
                    progress = progress.after(outcome)
                case RollBack() as back:
                    went = _roll_back(job, saves, progress.after_dropped(outcome), back)
                    if isinstance(went, StopReason):
                        reason = went
                        break
                    progress = went
                    continue
                case Halt(why):
                    reason = StopReason("halted", why)
                    break
                case Drop() as drop:
                    progress = _drop(job, progress, outcome, drop)
                    continue
            _tell(job, StepKept(progress, outcome))
            saves.settle()
            score: float | NotScored = NOT_SCORED
            if job.validate_every.due(progress):
                score = _validate(job, progress)
            if job.checkpoint_every.due(progress) or score is not NOT_SCORED:
                saves.begin(progress, score)
        return _finish(job, saves, progress, reason)


def _resume(job: Job, saves: Saves) -> Progress:
    """Progress of the newest valid checkpoint; without one, initial progress, saved."""
    job.model.train()
    loaded = job.checkpoints.newest_valid()
    match loaded:
        case NoCheckpoint():
            progress = Progress()
            saves.save(progress, must=True)
        case Loaded():
            for name, stateful in job.state.items():
                with restoring(loaded, name):
                    stateful.restore(loaded.parts[name])
                reached("resume")
            progress = progress_of(loaded)
            job.feed.seek(progress.samples)
            saves.step = progress.step
            if why := why_not_exact(loaded.inventory, job.inventory):
                _tell(job, Noted("not_exact", why))
            _tell(job, Resumed(progress, loaded.name, tuple(loaded.rejected)))
            if loaded.elsewhere:
                saves.save(progress, loaded.score, must=True)
        case _:
            assert_never(loaded)
    return progress


def _roll_back(job: Job, saves: Saves, progress: Progress, back: RollBack) -> Progress | StopReason:
    """Restore the newest state from before the bad steps, and save it at once.

    The feed is not restored, so the bad rows are skipped; nor are parts that say `keep`. Saved
    before it is announced: a run that dies in between must not have lost the signals of steps that
    the newest checkpoint still contains.
    """
    before = progress.step + 1 - back.steps
    loaded = job.checkpoints.newest_valid(before, back.further)
    if isinstance(loaded, NoCheckpoint):
        return StopReason("halted", f"{back.why}; no checkpoint precedes it")
    feed: object = job.feed
    for part in StateParts.of(job.state).parts:
        if part.stateful is not feed and part.on_rollback == "restore":
            with restoring(loaded, part.name):
                part.stateful.restore(loaded.parts[part.name])
    reached("rollback")
    rewound = progress._replace(step=loaded.step)
    saves.save(rewound, loaded.score)
    _tell(job, RolledBack(rewound, progress.step, back.why))
    return rewound


def _drop(job: Job, progress: Progress, outcome: StepOutcome, drop: Drop) -> Progress:
    """Count the step, and subtract the dropped ones from the applied steps."""
    after = progress.after(outcome)
    after = after._replace(step=after.step - len(drop.steps))
    for step in drop.steps:
        dropped = StepDropped(after, step.why, step.rows, step.loss, step.gradient_norm)
        _tell(job, dropped)
    return after


def _stop_reason(job: Job, progress: Progress) -> StopReason | None:
    """First reason to end; every rule is evaluated each time."""
    first = None
    for rule in job.stop_rules:
        reason = rule.reason(progress)
        if first is None:
            first = reason
    return first


def _tell(job: Job, event: Event) -> None:
    for observer in job.observers:
        observer.observe(event)


def _validate(job: Job, progress: Progress) -> float:
    """Score the model, update patience, and return the value that ranks checkpoints.

    Modes and random numbers are preserved.
    """
    reached("eval")
    started = time.perf_counter()
    modes = [(module, module.training) for module in job.model.modules()]
    numbers = RandomState().snapshot()
    job.model.eval()
    try:
        with torch.no_grad():
            values = read_values(job.validate(), job.patience.watch)
    finally:
        for module, training in modes:
            module.training = training
        RandomState().restore(numbers)
    score = _value(values, job.patience.watch, "patience")
    improved = job.patience.tell(score, progress.step)
    _tell(job, Validated(progress, values, time.perf_counter() - started, improved))
    return _value(values, job.rank_by or job.patience.watch, "rank_by")


def _value(values: Mapping[str, float], name: str, needed_by: str) -> float:
    """Value `name` of a validation.

    Raises:
        Mistake: it is missing.
    """
    if name in values:
        return values[name]
    raise Mistake(
        Problem(
            f"the validation returns no {name!r}",
            path=f"Job.{needed_by}",
            found=", ".join(values) or "no value",
            expected=f"{name!r} among the values that validate() returns",
            fix='return it, or name another value: patience=tw.Patience("accuracy", "max", '
            "patience=5); math.inf never stops",
        )
    )


def _finish(job: Job, saves: Saves, progress: Progress, reason: StopReason) -> Ended:
    """End the run: a final validation if it is finished and not yet validated at this step, and a
    checkpoint. Without the checkpoint, an unfinished run must not claim to be resumable."""
    score: float | NotScored = NOT_SCORED
    done = reason.kind in ("finished", "early", "budget")
    saves.settle()  # a validation may swap weights, which a save may still copy
    validates = not isinstance(job.validate_every, Never)
    if done and validates and progress.step and not job.validate_every.due(progress):
        score = _validate(job, progress)
    saves.wait()
    if saves.step != progress.step or score is not NOT_SCORED:
        saves.save(progress, score, must=not done)
    ended = Ended(progress, reason.kind, reason.text)
    _tell(job, ended)
    return ended
