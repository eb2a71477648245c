"""Rules on the optimizer and its schedule."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from trainwright.contract.document import Contract
from trainwright.contract.sections.training.optimizer import ScheduleFreeAdamW, Sgd
from trainwright.contract.sections.training.scheduler import (
    Constant,
    ReduceOnPlateau,
    StepDecay,
    WarmupStableDecay,
)
from trainwright.contract.sections.training.training import USUAL_PATIENCE
from trainwright.core.errors import Problem

_SCHEDULER = "training.scheduler"


def check_schedule_free(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Schedule-free learning averages steps of a constant rate; a falling one would undo it."""
    optimizer, scheduler = contract.training.optimizer, contract.training.scheduler
    if isinstance(optimizer, ScheduleFreeAdamW) and not isinstance(scheduler, Constant):
        yield Problem(
            "schedule_free_adamw needs a learning rate that does not fall",
            path=f"{_SCHEDULER}.name",
            found=scheduler.name,
            expected="constant, with a warmup",
            fix="write scheduler: {name: constant, warmup_ratio: 0.05}",
        )


def check_one_mean(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Schedule-free learning already evaluates an average; a second one would be neither."""
    training = contract.training
    if isinstance(training.optimizer, ScheduleFreeAdamW) and training.average != "off":
        yield Problem(
            "schedule_free_adamw evaluates a mean of the weights already",
            path="training.average",
            found=training.average.kind,
            expected="off",
            fix="remove training.average, or choose another optimizer",
        )


def check_batch_scaling(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """A base without scaling would be a silent mistake."""
    path = "training.optimizer.base_batch_size"
    if path in written and contract.training.optimizer.batch_scaling == "none":
        yield Problem(
            "base_batch_size has no effect without batch_scaling",
            path=path,
            expected="batch_scaling: linear or sqrt beside it",
            fix="write batch_scaling: sqrt, or remove base_batch_size",
        )


def check_nesterov(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Nesterov's look-ahead requires momentum."""
    optimizer = contract.training.optimizer
    if isinstance(optimizer, Sgd) and optimizer.nesterov and not optimizer.momentum:
        yield Problem(
            "nesterov needs momentum",
            path="training.optimizer.nesterov",
            found="nesterov: true with momentum: 0",
            expected="momentum above 0",
            fix="write momentum: 0.9, or remove nesterov",
        )


def check_warmup(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """Warmup and decay are given in steps or as a share, not both."""
    scheduler = contract.training.scheduler
    decay = scheduler.decay_steps if isinstance(scheduler, WarmupStableDecay) else 0
    for name, steps in (("warmup", scheduler.warmup_steps), ("decay", decay)):
        both = {f"{_SCHEDULER}.{name}_steps", f"{_SCHEDULER}.{name}_ratio"}
        if both <= written and steps:
            yield Problem(
                f"the {name} is given twice",
                path=f"{_SCHEDULER}.{name}_steps",
                found=f"{name}_steps and {name}_ratio",
                expected="one of the two",
                fix="remove one",
            )


def check_schedule_phases(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Warmup and decay of a schedule fit into the run without overlap."""
    match contract.training.scheduler:
        case WarmupStableDecay(
            warmup_steps=0, warmup_ratio=warmup, decay_steps=0, decay_ratio=decay
        ) if warmup + decay > 1:
            yield Problem(
                "warmup and decay are longer than the run",
                path=f"{_SCHEDULER}.decay_ratio",
                found=f"{warmup:g} + {decay:g}",
                expected="together at most 1",
                fix=f"change decay_ratio to {1 - warmup:g} or less",
            )
        case StepDecay(milestones=milestones) if any(a >= b for a, b in pairwise(milestones)):
            yield Problem(
                "milestones must rise",
                path=f"{_SCHEDULER}.milestones",
                found=", ".join(f"{share:g}" for share in milestones),
                expected="each larger than the one before it",
                fix=f"write {sorted(set(milestones))}",
            )
        case _:
            pass


def check_width_scaling(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """The scaling with the width is that of Adam with decoupled decay."""
    optimizer = contract.training.optimizer
    if contract.model.scales_with_width and optimizer.name not in ("adamw", "adamw_8bit"):
        yield Problem(
            f"the rates of mup are those of Adam, and not of {optimizer.name}",
            path="training.optimizer.name",
            found=optimizer.name,
            expected="adamw",
            fix="write training.optimizer.name: adamw, or remove model.init",
        )


def check_plateau(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """The rate must have a chance to fall before the training ends."""
    scheduler, stopping = contract.training.scheduler, contract.training.early_stopping
    if not isinstance(scheduler, ReduceOnPlateau) or stopping == "off":
        return
    patience = USUAL_PATIENCE if stopping.patience == "auto" else stopping.patience
    if scheduler.patience >= patience:
        yield Problem(
            "training would end before the learning rate falls",
            path=f"{_SCHEDULER}.patience",
            found=f"{scheduler.patience}, and early_stopping.patience {patience}",
            expected="less than early_stopping.patience",
            fix=f"change early_stopping.patience to {2 * scheduler.patience + 1}",
        )
