"""Buffers outside every state, checked at the first step: a resume would lose what a step changes
in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from trainwright.checkpoint.state import Snapshot
from trainwright.core.errors import Mistake, Problem
from trainwright.engine.job import Job, NoCheckpoints
from trainwright.engine.update.step import Step
from trainwright.run.script.check_job import check_first_step, is_ours
from trainwright.run.script.check_tensors import modules_of


def keep_buffers(job: Job, step: Step) -> Step:
    """The step, checked where the job has buffers that nothing in its state holds."""
    kept = isinstance(job.checkpoints, NoCheckpoints) or not list(_unheld(job))
    return step if kept else check_first_step(step, partial(_moves_no_buffer, job))


@contextmanager
def _moves_no_buffer(job: Job) -> Iterator[None]:
    """Refuses to change buffers that no part of the state holds."""
    before = {name: one.clone() for name, one in _unheld(job)}
    yield
    own = [part.snapshot() for part in job.state.values() if not is_ours(part)]
    moved = [
        name
        for name, now in _unheld(job)
        if not (name in before and torch.equal(before[name], now)) and not _is_in(own, now)
    ]
    if moved:
        raise Mistake(_lost(moved))


def _unheld(job: Job) -> Iterator[tuple[str, Tensor]]:
    """Buffers of the job's modules that are in no `state_dict`, with the name of each."""
    modules: dict[int, nn.Module] = {id(one): one for one in (job.model, *modules_of(job))}
    held = {
        id(one) for module in modules.values() for one in module.state_dict(keep_vars=True).values()
    }
    for module in modules.values():
        for name, one in module.named_buffers():
            if id(one) not in held:
                yield f"{type(module).__name__}.{name}", one


def _is_in(snapshots: list[Snapshot], now: Tensor) -> bool:
    """Whether a part written by the script itself holds this tensor's values."""
    copies = [copy for one in snapshots for copy in one.tensors.values()]
    value = now.detach().cpu()
    return any(copy.shape == value.shape and torch.equal(copy, value) for copy in copies)


def _lost(names: list[str]) -> Problem:
    return Problem(
        "the first step changed buffers that no checkpoint holds: a resumed run would be another "
        "run",
        path="Job.state",
        found=", ".join(names),
        expected="buffers in the state_dict of the model, or in a part of `state`",
        fix="register them with persistent=True and train into another folder; those of a library "
        "can be held by a part of your own, with `snapshot` and `restore`",
    )
