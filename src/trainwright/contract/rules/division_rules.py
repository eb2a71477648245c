"""Rules of `distributed.tensor` and `distributed.pipeline`: which models can be divided over
processes, and what cannot be done with a divided one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from trainwright.contract.document import Contract
from trainwright.contract.sections.training.optimizer import Adam, AdamW, Lion, Sgd
from trainwright.core.errors import Problem

_SPLIT = "training.guard.out_of_memory"


def check_division(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """Several processes train one model, each a part of it."""
    section = contract.distributed
    ranks = section.model_ranks
    if ranks == 1:
        return
    path = "distributed.tensor" if section.tensor > 1 else "distributed.pipeline"
    if section.strategy != "ddp":
        yield Problem(
            "the processes that divide a model are among those of ddp",
            path=path,
            found=f"strategy: {section.strategy}",
            expected="1 with another strategy",
            fix="change strategy to ddp",
        )
        return
    if section.num_gpus == "auto" or section.num_gpus % ranks:
        yield Problem(
            "the processes that divide a model have to divide the number of processes",
            path="distributed.num_gpus",
            found=str(section.num_gpus),
            expected=f"a multiple of tensor x pipeline, {ranks}",
            fix=f"change it to {ranks}",
        )
    yield from contract.model.division_problems(section.tensor, section.pipeline)
    refused = [_refused(contract, written)]
    if section.pipeline > 1:
        refused.append(_refused_in_stages(contract))
    for is_so, where, found, expected in chain.from_iterable(refused):
        if is_so:
            yield Problem(
                f"it does not go with {path}",
                path=where,
                found=found,
                expected=expected,
                fix=f"change it, or remove {path}",
            )


def _refused_in_stages(contract: Contract) -> Iterator[tuple[bool, str, str, str]]:
    """The same for stages, each of which has other blocks and sees its micro-batches one by one."""
    training = contract.training
    optimizer = training.optimizer
    factors = ", ".join(optimizer.learning_rate_factors)
    yield contract.data.is_padded, "data.windows", "padded", "windows of one length"
    yield training.ramps.sequence != "off", "training.ramps.sequence", "a ramp", "off"
    yield training.teacher != "none", "training.teacher", "a teacher", "none"
    yield bool(factors), "training.optimizer.learning_rate_factors", factors, "none"
    decay = optimizer.layer_decay
    yield decay != 1, "training.optimizer.layer_decay", f"{decay:g}", "1"
    yield contract.model.scales_with_width, "model.init", "mup", "usual"
    asynchronous = training.checkpointing.asynchronous
    yield asynchronous, "training.checkpointing.asynchronous", "true", "false"


def _refused(contract: Contract, written: frozenset[str]) -> Iterator[tuple[bool, str, str, str]]:
    """Whether a setting is one that a divided model does not have, its path, and what it may be."""
    training, windows = contract.training, contract.tracking.windows
    memory, optimizer = training.memory, training.optimizer
    checkpointing = memory.activation_checkpointing
    yield contract.model.has_adapter, "model.adapter", "an adapter", "none"
    yield (
        not isinstance(optimizer, Sgd | Adam | AdamW | Lion),
        "training.optimizer.name",
        optimizer.name,
        "adamw, adam, lion or sgd, which update each number by itself",
    )
    yield training.average != "off", "training.average", "an average of weights", "off"
    yield bool(training.freeze), "training.freeze", ", ".join(training.freeze), "no frozen modules"
    yield memory.head_loss == "fused", "training.memory.head_loss", "fused", "separate"
    yield memory.offload_optimizer, "training.memory.offload_optimizer", "true", "false"
    yield (
        checkpointing not in ("off", "full"),
        "training.memory.activation_checkpointing",
        "some of it",
        "off or full",
    )
    yield training.compute.compile == "on", "training.compute.compile", "on", "off"
    yield (
        training.mixed_precision in ("fp16", "fp8"),
        "training.mixed_precision",
        training.mixed_precision,
        "bf16 or fp32",
    )
    is_measured = windows != "off" and any(path.startswith("tracking.windows") for path in written)
    yield is_measured, "tracking.windows", "measured", "off, as they are where nothing is written"
    splits = training.guard.out_of_memory == "split" and _SPLIT in written
    yield splits, _SPLIT, "split", "raise, as it is where nothing is written"
