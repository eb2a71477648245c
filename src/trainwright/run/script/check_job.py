"""Checks of a script's job before it starts: completeness of its state, types of its fields.
Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple, get_args

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd
from torch.optim import Optimizer

from trainwright.checkpoint.state import Snapshot, Stateful
from trainwright.checkpoint.states.eval_weights_state import EvaluatedState
from trainwright.checkpoint.states.module_state import ModuleState, is_extra_state
from trainwright.checkpoint.states.optimizer_state import OptimizerState
from trainwright.checkpoint.states.random_state import RandomState
from trainwright.core.errors import Mistake, Problem
from trainwright.data.loading.feed import StepBatches
from trainwright.engine.job import Job, Never, NoCheckpoints, NoValidation
from trainwright.engine.update.step import Step
from trainwright.optim.ema import EMA
from trainwright.optim.swa import SWA
from trainwright.run.script.check_loader import persistent_workers
from trainwright.run.script.check_tensors import find_within, uninitialised, unstorable
from trainwright.run.script.same_settings import OnChange
from trainwright.tracking.events import StepOutcome

_SHOWN = 5


class _Field(NamedTuple):
    """A field, the method that each of its values needs (empty: to be callable), and an example;
    `is_many` if it is a tuple of them."""

    name: str
    method: str
    written: str
    is_many: bool = False


_FIELDS = (
    _Field("stop_rules", "reason", "stop_rules=(tw.StepLimit(1000),)", True),
    _Field("knobs", "", "knobs=(tw.LearningRate(optimizer, schedule),)", True),
    _Field(
        "outcome_observers",
        "take_outcome",
        "outcome_observers=(tw.AverageUpdate(mean),)",
        True,
    ),
    _Field("probes", "around", "probes=tw.StepProbes(windows, [layers])"),
    _Field("observers", "observe", "observers=(observer,), each with a method observe", True),
    _Field("validate", "", "validate=function, without calling it"),
    _Field("checkpoint_every", "due", "checkpoint_every=tw.Every(100)"),
    _Field("checkpoints", "newest_valid", 'checkpoints=tw.Checkpoints("folder", keep_top_k=1)'),
)


def check_fields(job: Job, changed: OnChange) -> None:
    """Refuse fields of the wrong type.

    Raises:
        Mistake: all such fields at once.
    """
    problems = [problem for field in _FIELDS for problem in _of_field(job, field)]
    if changed not in get_args(OnChange):
        problems.append(_problem("changed", changed, 'changed="refuse" or changed="record"'))
    if problems:
        raise Mistake(problems)


def _of_field(job: Job, field: _Field) -> Iterator[Problem]:
    value: object = getattr(job, field.name)
    values = value if field.is_many else (value,)
    fits: Callable[[object], bool] = (
        (lambda one: callable(getattr(one, field.method, None))) if field.method else callable
    )
    if not isinstance(values, tuple | list):
        yield _problem(f"Job.{field.name}", value, field.written)
    else:
        wrong = [one for one in values if not fits(one)]
        yield from (_problem(f"Job.{field.name}", one, field.written) for one in wrong[:1])


def _problem(path: str, found: object, written: str) -> Problem:
    return Problem(
        "this is not what the argument takes",
        path=path,
        found=f"{type(found).__name__} {found!r}"[:160],
        fix=f"write {written}",
    )


def check_job(job: Job) -> None:
    """Refuse a job that would not do what its fields say, or whose checkpoints would lack what a
    resume needs.

    Raises:
        Mistake: all gaps at once; nothing was written.
    """
    gaps: tuple[Callable[[Job], Iterator[Problem]], ...] = (uninitialised, _ending, _validation)
    gaps += (_names,)
    if not isinstance(job.checkpoints, NoCheckpoints):
        gaps += (_weights, _trained_elsewhere, _optimizers, _patience, _random_numbers)
        gaps += (_source, _means, unstorable, persistent_workers)
    if problems := [problem for find in gaps for problem in find(job)]:
        raise Mistake(problems)


def _ending(job: Job) -> Iterator[Problem]:
    if not job.stop_rules:
        yield Problem(
            "nothing would end this training",
            path="Job.stop_rules",
            found="no rule",
            fix="give it one: stop_rules=(tw.StepLimit(1000),)",
        )


def _validation(job: Job) -> Iterator[Problem]:
    validates = not isinstance(job.validate, NoValidation)
    if not callable(getattr(job.validate_every, "due", None)):
        yield Problem(
            "this says no steps",
            path="Job.validate_every",
            found=repr(job.validate_every),
            fix="validate_every=tw.Every(100), or tw.At(frozenset({100, 200}))",
        )
    elif validates and isinstance(job.validate_every, Never):
        yield Problem(
            "`validate` would never be called",
            path="Job.validate_every",
            found="no steps to validate at",
            fix="add to the job: validate_every=tw.Every(feed.steps_per_epoch)",
        )
    elif not validates and not isinstance(job.validate_every, Never):
        yield Problem(
            "there is nothing to validate with",
            path="Job.validate",
            found="`validate_every` alone",
            fix="add to the job: validate=..., a function that returns named numbers",
        )


def _names(job: Job) -> Iterator[Problem]:
    if "progress" in job.state:
        yield Problem(
            "the loop keeps its own progress under this name, in the place of this part",
            path="Job.state",
            found="'progress'",
            fix="give the part another name",
        )


def _held_tensors(job: Job) -> set[int]:
    modules = [part.module for part in job.state.values() if isinstance(part, ModuleState)]
    return {id(one) for module in modules for one in _tensors_of(module)}


def _trained_elsewhere(job: Job) -> Iterator[Problem]:
    """Parameters trained by an optimizer of the step that are not part of the model."""
    held = _held_tensors(job) | {id(one) for one in _tensors_of(job.model)}
    names = {
        id(one): name
        for part in job.state.values()
        if isinstance(part, OptimizerState)
        for name, one in part.parameters()
    }
    missing = [
        (names.get(id(one), f"one of shape {list(one.shape)}"), one)
        for optimizer in find_within(job.step, Optimizer)
        for group in optimizer.param_groups
        for one in group["params"]
        if id(one) not in held
    ]
    if missing and not _is_in_snapshots(job, [one for _, one in missing]):
        yield gap_in_state(
            "weights that are trained outside of the model",
            f"an optimizer has parameters that no part of `state` holds: "
            f"{_listed([name for name, _ in missing])}",
            '"head": tw.ModuleState(head), for the module that they belong to',
        )


def _weights(job: Job) -> Iterator[Problem]:
    covered = _held_tensors(job)
    missing = {
        name: tensor for name, tensor in _named_tensors(job.model) if id(tensor) not in covered
    }
    if missing and not _is_in_snapshots(job, list(missing.values())):
        yield gap_in_state(
            "the model's weights",
            f"no part of `state` holds {_listed(list(missing))}",
            'state={"model": tw.ModuleState(model), ...}',
        )


def _tensors_of(module: nn.Module) -> list[torch.Tensor]:
    return [tensor for _, tensor in _named_tensors(module)]


def _named_tensors(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Parameters and persistent buffers."""
    named = module.state_dict(keep_vars=True)
    tensors = [(name, one) for name, one in named.items() if isinstance(one, torch.Tensor)]
    return [(name, one) for name, one in tensors if not is_extra_state(name)]


def _is_in_snapshots(job: Job, tensors: list[torch.Tensor]) -> bool:
    """Do parts written by the script itself contain these tensors' values?"""
    own = [part for part in job.state.values() if not is_ours(part)]
    copies = [copy for part in own for copy in part.snapshot().tensors.values()]
    return all(
        any(copy.shape == one.shape and torch.equal(copy, one.detach().cpu()) for copy in copies)
        for one in tensors
    )


def is_ours(part: object) -> bool:
    """Is a part of the state of a class of this package?"""
    return type(part).__module__.startswith("trainwright.")


def _optimizers(job: Job) -> Iterator[Problem]:
    parts = job.state.values()
    holders = [part.optimizer for part in parts if isinstance(part, OptimizerState)]
    own = [part for part in parts if not is_ours(part)]
    kept = {id(one) for one in find_within([holders, own], Optimizer)}
    if any(id(one) not in kept for one in find_within(job.step, Optimizer)):
        yield gap_in_state(
            "the optimizer",
            "no part of `state` holds its moments and hyperparameters",
            '"optimizer": tw.OptimizerState(optimizer, model.named_parameters())',
        )


def _patience(job: Job) -> Iterator[Problem]:
    if job.patience in job.stop_rules and job.patience not in job.state.values():
        yield gap_in_state(
            "patience",
            "early stopping would start counting again",
            '"patience": patience',
        )


def _random_numbers(job: Job) -> Iterator[Problem]:
    dropout = [one for one in job.model.modules() if isinstance(one, _DropoutNd) and one.p]
    if dropout and not _keeps_random_numbers(job):
        yield _no_random_numbers(f"the model has {dropout[0]}")


def _source(job: Job) -> Iterator[Problem]:
    if isinstance(job.feed, Stateful) and job.feed not in job.state.values():
        yield gap_in_state(
            "the feed", "its position is not a number of samples alone", '"feed": feed'
        )


def _means(job: Job) -> Iterator[Problem]:
    """Weight averages updated by the step that no part of the state contains."""
    parts = [part for part in job.state.values() if not isinstance(part, EvaluatedState)]
    for kind in (EMA, SWA):
        held = {id(one) for one in find_within(parts, kind)}
        if any(id(one) not in held for one in find_within([job.step, job.outcome_observers], kind)):
            yield gap_in_state(
                "the weight average",
                "it would start over",
                f'"mean": tw.{kind.__name__}State(mean)',
            )


def _keeps_random_numbers(job: Job) -> bool:
    return any(isinstance(part, RandomState) for part in job.state.values())


def _no_random_numbers(found: str) -> Problem:
    return gap_in_state("the random numbers", found, '"random": tw.RandomState()')


def gap_in_state(what: str, found: str, fix: str) -> Problem:
    """Error for state that a checkpoint of the job would lack."""
    return Problem(
        f"the checkpoints of this job lack {what}: a resumed run would be another run",
        path="Job.state",
        found=found,
        fix=f"add to the job: {fix}",
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def check_first_step(step: Step, around: Callable[[], AbstractContextManager[None]]) -> Step:
    """The step; its first call is made inside of a context."""
    checks = [around]

    def checked(work: StepBatches) -> StepOutcome:
        if not checks:
            return step(work)
        with checks.pop()():
            return step(work)

    return checked


@contextmanager
def _draws_nothing() -> Iterator[None]:
    """Refuses to draw random numbers whose generator is not checkpointed."""
    before = RandomState().snapshot()
    yield
    if not _is_same(before, RandomState().snapshot()):
        raise Mistake(_no_random_numbers("the first step drew some"))


def keep_random_numbers(job: Job) -> Step:
    """The job's step, checked for random numbers if its state contains no generator."""
    if _keeps_random_numbers(job) or isinstance(job.checkpoints, NoCheckpoints):
        return job.step
    return check_first_step(job.step, _draws_nothing)


def _is_same(before: Snapshot, after: Snapshot) -> bool:
    same = (torch.equal(one, after.tensors[name]) for name, one in before.tensors.items())
    return before.packed_values == after.packed_values and all(same)
