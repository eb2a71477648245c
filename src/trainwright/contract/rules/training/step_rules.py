"""Rules on a step: its rows, what grows, the optimizer and its schedule."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.data_traits import Curriculum
from trainwright.contract.sections.training.optimizer import (
    BatchRamp,
    ScheduleFreeAdamW,
    SequenceRamp,
    Sgd,
)
from trainwright.contract.sections.training.scheduler import (
    Constant,
    CyclicRate,
    ReduceOnPlateau,
    StepDecay,
    Swa,
    WarmupStableDecay,
)
from trainwright.contract.sections.training.training import USUAL_PATIENCE, Training
from trainwright.core.errors import Problem

_RAMPS = "training.ramps"
_STOP = "training.stop"
_LENGTHS = ("training.num_steps", "training.num_tokens")
_SCHEDULER = "training.scheduler"
_AVERAGE = "training.average"


def batch_arithmetic(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """batch_size x gradient_accumulation_steps x devices is effective_batch_size."""
    training = contract.training
    batch, accumulation = training.batch_size, training.gradient_accumulation_steps
    effective = training.effective_batch_size
    devices = contract.distributed.data_ranks
    if effective == "auto":
        return
    if batch == "auto" or accumulation == "auto":
        known = devices
        known *= 1 if batch == "auto" else batch
        known *= 1 if accumulation == "auto" else accumulation
        if effective % known:
            yield Problem(
                f"effective_batch_size {effective} is not a multiple of {known}, which is "
                f"{_factors(batch, accumulation, devices)}",
                path="training.effective_batch_size",
                found=str(effective),
                expected=f"a multiple of {known}",
                fix=f"change it to {max(1, round(effective / known)) * known}",
            )
        return
    product = batch * accumulation * devices
    if product != effective:
        yield Problem(
            f"effective_batch_size says {effective}, but {_factors(batch, accumulation, devices)} "
            f"is {product}",
            path="training.effective_batch_size",
            found=str(effective),
            expected=str(product),
            fix=_ways_to_mend(batch, accumulation, devices, effective),
        )


def _factors(batch: int | str, accumulation: int | str, devices: int) -> str:
    named = (
        ("training.batch_size", batch),
        ("training.gradient_accumulation_steps", accumulation),
        ("distributed.num_gpus", devices),
    )
    return " x ".join(f"{path} {value}" for path, value in named if value != "auto")


def _ways_to_mend(batch: int, accumulation: int, devices: int, effective: int) -> str:
    ways = [f"effective_batch_size to {batch * accumulation * devices}"]
    for name, rest in (
        ("gradient_accumulation_steps", batch * devices),
        ("num_gpus", batch * accumulation),
        ("batch_size", accumulation * devices),
    ):
        if effective % rest == 0:
            ways.append(f"{name} to {effective // rest}")
    return f"change {', or '.join(ways)}"


def check_batch_ramp(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """A ramp goes up."""
    ramp, full = contract.training.ramps.batch, contract.training.effective_batch_size
    if ramp == "off" or full == "auto" or ramp.start < full:
        return
    yield Problem(
        "a step would begin with all of its rows",
        path=f"{_RAMPS}.batch.start",
        found=str(ramp.start),
        expected=f"less than effective_batch_size, which is {full}",
        fix=f"change it to {full // 8}" if full >= 16 else "remove training.ramps.batch",
    )


def check_sequence_ramp(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Windows of a text are cut into equal ones."""
    ramp, context = contract.training.ramps.sequence, contract.model.context_length
    if ramp == "off":
        return
    path = f"{_RAMPS}.sequence"
    if not contract.data.has_tokens or not context:
        yield Problem(
            "only a text has windows that can be cut",
            path=path,
            found=f"data of kind {contract.data.kind}",
            expected="data of kind tokens",
            fix="remove training.ramps.sequence",
        )
    elif ramp.start >= context or context % ramp.start:
        fitting = [size for size in range(1, context) if context % size == 0]
        nearest = min(fitting, key=lambda size: abs(size - ramp.start))
        yield Problem(
            f"windows of {context} tokens cannot be cut into ones of {ramp.start}",
            path=f"{path}.start",
            found=str(ramp.start),
            expected=f"a divisor of model.context, less than {context}",
            fix=f"change it to {nearest}",
        )


def check_ramp_ends(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """The end of a ramp is given once."""
    ramps = {"batch": contract.training.ramps.batch, "sequence": contract.training.ramps.sequence}
    for name, ramp in ramps.items():
        both = {f"{_RAMPS}.{name}.samples", f"{_RAMPS}.{name}.ratio"}
        if isinstance(ramp, BatchRamp | SequenceRamp) and both <= written and ramp.samples:
            yield Problem(
                "the end of the ramp is given twice",
                path=f"{_RAMPS}.{name}.samples",
                found="samples and ratio",
                expected="one of the two",
                fix="remove one",
            )


def check_limits(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Tokens are those of a text, and a schedule spans limits that are there."""
    stop = contract.training.stop
    if stop.max_tokens != "off" and not contract.data.has_tokens:
        yield Problem(
            "only a text has tokens",
            path=f"{_STOP}.max_tokens",
            found=f"data of kind {contract.data.kind}",
            expected="data of kind tokens",
            fix="rename it to max_samples, which counts training rows",
        )
    limits = (stop.max_steps, stop.max_samples, stop.max_tokens)
    if stop.schedule_spans == "limits" and all(limit == "off" for limit in limits):
        yield Problem(
            "there is no limit for the schedule to span",
            path=f"{_STOP}.schedule_spans",
            found="limits",
            expected="max_steps, max_samples or max_tokens beside it",
            fix="remove schedule_spans, or add a limit",
        )


def check_length(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """The length of a training is given once, tokens are those of a text, and what is a share of
    the length knows it beforehand."""
    training = contract.training
    names = ("num_steps", "num_tokens", "stop.max_steps", "stop.max_samples", "stop.max_tokens")
    given = [f"training.{name}" for name in names if _value(training, name) != "off"]
    given += ["training.num_epochs"] * (training.num_epochs != "auto")
    length = [path for path in given if path in _LENGTHS]
    if not length:
        return
    if len(given) > 1:
        yield Problem(
            "the length of the training is given twice",
            path=length[0],
            found=" and ".join(sorted(given)),
            expected="one of them",
            fix="remove the others",
        )
    padded_mix = contract.data.is_padded and contract.data.sampling.kind == "mixture"
    if training.num_tokens != "off" and (not contract.data.has_tokens or padded_mix):
        yield Problem(
            "the tokens of an epoch are not known beforehand",
            path=_LENGTHS[1],
            found="a padded mixture" if padded_mix else f"data of kind {contract.data.kind}",
            expected="a text whose epochs have equally many tokens",
            fix="rename it to num_steps, which counts optimizer steps",
        )
    yield from _shares(contract, length[0])


def _value(training: Training, name: str) -> object:
    section, _, key = name.rpartition(".")
    return getattr(training.stop if section else training, key)


def _shares(contract: Contract, length: str) -> Iterator[Problem]:
    """Ramps and curricula that end after a share of all rows, whose number is not given."""
    ramps = {f"{_RAMPS}.batch": contract.training.ramps.batch}
    parts: dict[str, object] = {**ramps, f"{_RAMPS}.sequence": contract.training.ramps.sequence}
    parts["data.sampling"] = contract.data.sampling
    for path, one in parts.items():
        if isinstance(one, BatchRamp | SequenceRamp | Curriculum) and not one.samples:
            yield Problem(
                "it ends after a share of the rows of all epochs, which are not given",
                path=f"{path}.ratio",
                found=f"{one.ratio:g}, and {length.rpartition('.')[2]}",
                expected="a number of rows",
                fix="write samples in place of ratio",
            )


def check_noise_scale(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """The noise is seen between the micro-batches of a step."""
    windows, accumulation = contract.tracking.windows, contract.training.gradient_accumulation_steps
    if windows == "off" or windows.noise_scale == "off" or accumulation != 1:
        return
    yield Problem(
        "the gradient noise scale needs two micro-batches in a step",
        path="tracking.windows.noise_scale",
        found="one micro-batch a step",
        expected="training.gradient_accumulation_steps above 1",
        fix="halve training.batch_size and write gradient_accumulation_steps: 2, or remove it",
    )


RAMP_RULES = (
    check_batch_ramp,
    check_sequence_ramp,
    check_ramp_ends,
    check_limits,
    check_length,
    check_noise_scale,
)
"""All of them, for the list of rules."""


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


def check_swa(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """The start is given once, and a cycle has a way down."""
    average = contract.training.average
    if not isinstance(average, Swa):
        return
    both = {f"{_AVERAGE}.start_epoch", f"{_AVERAGE}.start_ratio"}
    if both <= written and average.start_epoch:
        yield Problem(
            "the start of the mean is given twice",
            path=f"{_AVERAGE}.start_epoch",
            found="start_epoch and start_ratio",
            expected="one of the two",
            fix="remove one",
        )
    if isinstance(average.learning_rate, CyclicRate) and average.every_n_steps == 1:
        yield Problem(
            "a cycle of one step has no way down",
            path=f"{_AVERAGE}.every_n_steps",
            found="1",
            expected="more steps, or epoch, with a cyclic rate",
            fix="change it to epoch, or learning_rate.kind to constant",
        )


AVERAGE_RULES = (check_swa,)
"""All of them, for the list of rules."""
