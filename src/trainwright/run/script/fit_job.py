"""`tw.fit`: the training loop for a user's model, guarded like a run from a contract. Needs
torch."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import final

import torch

from trainwright.checkpoint.state import Stateful, StatePart, StateParts
from trainwright.checkpoint.states.eval_weights_state import EVALUATED, WEIGHTS, EvaluatedState
from trainwright.checkpoint.states.module_state import ModuleState
from trainwright.checkpoint.states.optimizer_state import OptimizerState
from trainwright.checkpoint.storages.local_storage import LocalStorage
from trainwright.checkpoint.store import Checkpoints, Loaded
from trainwright.checkpoint.store_calls import guard_loads
from trainwright.core.errors import Interrupted, Mistake, NonFinite, Problem
from trainwright.core.files import Json, storage_errors
from trainwright.core.formatting import show_number
from trainwright.core.progress import StopFlag
from trainwright.engine.execution.numeric_env import numerics_of
from trainwright.engine.job import Job, NoCheckpoints
from trainwright.engine.loader_feed import LoaderFeed
from trainwright.engine.loop import fit as run_loop
from trainwright.engine.restore_state import restoring
from trainwright.engine.save_interval import FirstOf
from trainwright.engine.saving import SaveRequested
from trainwright.engine.stopping.stop_rules import StepLimit, StopRequested
from trainwright.optim.eval_weights import Evaluating
from trainwright.run.screen import StreamScreen, labelled
from trainwright.run.script.check_buffers import keep_buffers
from trainwright.run.script.check_generators import keep_generators
from trainwright.run.script.check_job import check_fields, check_job, keep_random_numbers
from trainwright.run.script.check_tensors import find_within
from trainwright.run.script.job_settings import JobSettings, describe_job, optimizers_of
from trainwright.run.script.same_settings import SETTINGS, ChangedOptions, OnChange, SameSettings
from trainwright.run.script.script_run import ScriptRun, keep_in_run, open_script_run
from trainwright.run.supervise.preemption import stop_on_signals
from trainwright.tracking.events import (
    Ended,
    Event,
    Number,
    Observer,
    Observers,
    StepKept,
    read_number,
)
from trainwright.tracking.lock import RunLock

_LOCK = "lock"


@final
class StoppedBySignal(Interrupted, SystemExit):
    """A training from a script was stopped by a signal after its checkpoint was written.

    If uncaught, the process exits with code 75 and without a traceback.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = self.exit_code


def fit(
    job: Job,
    *,
    run: str | Path | None = None,
    changed: OnChange = "refuse",
    restore_best: bool = False,
    progress: bool = True,
) -> Ended:
    """Train until a stop rule or the guard ends it; resumes from the newest valid checkpoint.

    There is a checkpoint at step 0 and at every ending. SIGTERM and Ctrl-C end the training after
    the current step, with a checkpoint; SIGUSR1 asks for one. An observer that raises does not end
    the training: its failures are counted and the first is announced.

    Args:
        job: model, step, feed and the rest.
        run: a run folder for record, signals, events and, if the job names no other place, its
            checkpoints; made if it is missing. The checkpoints are bound to it: those of another
            run are refused. `trainwright runs` takes it.
        changed: what happens if settings (learning rate, batch size, dropout, weight decay, rows)
            differ from those of the checkpoint: `refuse`, or `record`, which announces them and
            goes on with the new ones.
        restore_best: end with the weights of the best validation.
        progress: whether progress, remaining time and loss are shown on stderr.

    Raises:
        Mistake: the job lacks what a resume needs, or its settings have changed; nothing was
            written. DataChanged: the feed's rows have changed. RunLocked: another process trains
            into this folder. Interrupted: stopped by a signal, to be resumed by the same call; ends
            a script with exit code 75. NonFinite: the guard halted the training. NoValidCheckpoint,
            StorageFailed: as their names say. Whatever the step itself raises passes through.
    """
    check_fields(job, changed)
    job = job if run is None else keep_in_run(job, Path(run))
    check_job(job)
    if restore_best:
        _check_best(job)
    settings, flag, last_loss = JobSettings(describe_job(job)), StopFlag(), _LastLoss()
    opening = _open(job, run, settings)
    with stop_on_signals(flag), opening as opened, _progress(job, last_loss, progress) as shown:
        own = [observer for one in opened for observer in one.observers]
        with flag.watched():
            ended = run_loop(_guard(job, settings, changed, flag, [*own, *shown]))
        _check_ending(ended, job)
        ended, kept_step = _with_best(job, ended) if restore_best else (ended, 0)
        for one in opened:
            one.finish(ended, kept_step)
    if progress:
        _say("trained", " · ".join([ended.reason, *last_loss.text()]))
    return ended


@contextmanager
def _open(job: Job, run: str | Path | None, settings: JobSettings) -> Iterator[list[ScriptRun]]:
    """The run folder, if there is one, and the folder of the checkpoints, both locked; the
    checkpoints are bound to the run."""
    with ExitStack() as stack:
        kept = [] if run is None else [open_script_run(Path(run), job, settings)]
        opened = [stack.enter_context(one) for one in kept]
        stack.enter_context(_locked(job))
        for one in opened:
            one.bind(job, settings)
        yield opened


def _guard(
    job: Job,
    settings: JobSettings,
    changed: OnChange,
    flag: StopFlag,
    own: list[Observer],
) -> Job:
    """The job with signal handling, settings compared and observers isolated, so that their errors
    do not end it."""
    say = partial(_say, "warning")
    state = StateParts.of(job.state)
    if changed == "record":
        names = {id(one): name for name, one in optimizers_of(job).items()}
        state = StateParts(_keep_options(part, names, settings) for part in state.parts)
    for feed in find_within(job.feed, LoaderFeed):
        feed.take_other_batches(changed == "record")
    compared = SameSettings(settings, changed, say, state)
    inventory = dict(job.inventory) if isinstance(job.inventory, dict) else {}
    device = next((one.device for one in job.model.parameters()), torch.device("cpu"))
    drawless = keep_generators(job)
    return replace(
        job,
        step=keep_buffers(job, keep_random_numbers(drawless)),
        validate=drawless.validate,
        state=state,
        stop_rules=(*job.stop_rules, StopRequested(flag)),
        observers=(Observers(job.observers, say, survived=(Exception,)), *own),
        checkpoints=guard_loads(job.checkpoints, compared.check),
        checkpoint_every=FirstOf([job.checkpoint_every, SaveRequested(flag)]),
        inventory={
            **numerics_of(device),
            **inventory,
            SETTINGS: settings.values,
            WEIGHTS: _describe_weights(job),
        },
    )


def _keep_options(part: StatePart, names: Mapping[int, str], settings: JobSettings) -> StatePart:
    """The part; that of an optimizer keeps changed options on a restore."""
    own = part.stateful
    if not isinstance(own, OptimizerState) or id(own.optimizer) not in names:
        return part
    return replace(part, stateful=ChangedOptions(own, names[id(own.optimizer)], settings))


def _locked(job: Job) -> RunLock | ExitStack:
    """Lock on the job's checkpoint folder, if it is local."""
    store = job.checkpoints
    if not (isinstance(store, Checkpoints) and isinstance(store.storage, LocalStorage)):
        return ExitStack()
    folder = store.storage.folder
    with storage_errors(f"making {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    return RunLock.acquire(folder / _LOCK)


@contextmanager
def _progress(job: Job, last_loss: _LastLoss, is_shown: bool) -> Iterator[list[Observer]]:
    if not is_shown:
        yield []
        return
    shown = StreamScreen(sys.stderr).progress(_total_steps(job))
    try:
        yield [shown, last_loss]
    finally:
        shown.close()


def _say(label: str, text: str) -> None:
    StreamScreen(sys.stderr).say(labelled(label, text))


def _total_steps(job: Job) -> int:
    """Length of the training in steps; 0 if no rule sets it."""
    limits = [rule.steps for rule in job.stop_rules if isinstance(rule, StepLimit)]
    return min(limits, default=0)


def _check_ending(ended: Ended, job: Job) -> None:
    if ended.kind == "halted":
        raise NonFinite(f"the training was halted: {ended.reason}")
    if ended.kind == "interrupted":
        kept = not isinstance(job.checkpoints, NoCheckpoints)
        then = "run the script again to go on" if kept else "nothing is kept: it has no checkpoints"
        text = f"stopped by {ended.reason} after step {ended.progress.step:,}; {then}"
        _say("stopped", text)
        raise StoppedBySignal(text)


def _check_best(job: Job) -> None:
    has_model = any(_is_model(job, part) for part in job.state.values())
    if isinstance(job.checkpoints, Checkpoints) and has_model:
        _check_evaluated(job)
        return
    raise Mistake(
        Problem(
            "the best weights are taken from a checkpoint, and this job keeps none",
            path="restore_best",
            expected='checkpoints=tw.Checkpoints(...), state={"model": tw.ModuleState(model), ...}',
            fix="add them, or leave restore_best out",
        )
    )


def _check_evaluated(job: Job) -> None:
    """Refuse to restore trained weights whose score belongs to other weights."""
    if _sees_others(job):
        raise Mistake(
            Problem(
                "the validation sees other weights than the checkpoints keep",
                path="restore_best",
                found="tw.Evaluating in Job.validate",
                expected="the evaluated weights in `state`",
                fix=f'add to the state: "{EVALUATED}": tw.EvaluatedState(mean, weights)',
            )
        )


def _sees_others(job: Job) -> bool:
    """Does the validation see weights that no part of the state holds?"""
    return bool(find_within(job.validate, Evaluating)) and not _evaluated_names(job)


def _describe_weights(job: Job) -> Json:
    """For an export: the part with the weights that the validation sees, or else the trained ones;
    empty if the script keeps them in a part of its own."""
    trained = [name for name, part in job.state.items() if _is_model(job, part)]
    names = [*_evaluated_names(job), *trained, ""]
    return {"part": names[0], "validated": not _sees_others(job)}


def _is_model(job: Job, part: Stateful) -> bool:
    return isinstance(part, ModuleState) and part.module is job.model


def _with_best(job: Job, ended: Ended) -> tuple[Ended, int]:
    """Restore the best weights; the ending, which names their step, and the step."""
    step = _restore_best(job)
    reason = f"{ended.reason}; weights of step {step:,}" if step else ended.reason
    return replace(ended, reason=reason), step


def _restore_best(job: Job) -> int:
    """Load the weights of the best validation into the model; their step."""
    assert isinstance(job.checkpoints, Checkpoints)
    best = job.checkpoints.best_valid()
    if not isinstance(best, Loaded):
        raise Mistake(
            Problem(
                "no checkpoint has a score, so none is the best",
                path="restore_best",
                fix="validate during the training: Job(validate=..., validate_every=...)",
            )
        )
    name, model = next((n, one) for n, one in job.state.items() if _is_model(job, one))
    part = (*_evaluated_names(job), name)[0]
    with restoring(best, part):
        model.restore(best.parts[part])
    return best.step


def _evaluated_names(job: Job) -> list[str]:
    """The parts of the state that hold the evaluated weights of the model, first the one that is
    called so."""
    parts = job.state.items()
    names = [n for n, one in parts if isinstance(one, EvaluatedState) and one.module is job.model]
    return sorted(names, key=lambda name: name != EVALUATED)


@final
class _LastLoss:
    """Keeps the last loss, read from its device only when it is shown."""

    def __init__(self) -> None:
        self._losses: deque[Number] = deque(maxlen=1)

    def observe(self, event: Event) -> None:
        """Keep the loss of a step."""
        if type(event) is StepKept:
            self._losses.append(event.outcome.loss)

    def text(self) -> list[str]:
        """`loss 0.123`; nothing before the first step."""
        return [f"loss {show_number(read_number(loss))}" for loss in self._losses]
