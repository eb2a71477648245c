"""Rules of `distributed.tensor`: which models can be divided over processes, and what cannot be
done with a divided one."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.training.optimizer import Adam, AdamW, Lion, Sgd
from trainwright.core.errors import Problem

_SPLIT = "training.guard.out_of_memory"


def check_division(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """Several processes train one model, each a part of it."""
    section = contract.distributed
    if section.tensor == 1:
        return
    path = "distributed.tensor"
    if section.strategy != "ddp":
        yield Problem(
            "the processes that divide a model are among those of ddp",
            path=path,
            found=f"{section.tensor}, and strategy: {section.strategy}",
            expected="1 with another strategy",
            fix="change strategy to ddp",
        )
        return
    if section.num_gpus == "auto" or section.num_gpus % section.tensor:
        yield Problem(
            "the processes that divide a model have to divide the number of processes",
            path="distributed.num_gpus",
            found=str(section.num_gpus),
            expected=f"a multiple of distributed.tensor, {section.tensor}",
            fix=f"change it to {section.tensor}",
        )
    yield from contract.model.division_problems(section.tensor)
    for is_so, where, found, expected in _refused(contract, written):
        if is_so:
            yield Problem(
                "it does not go with distributed.tensor",
                path=where,
                found=found,
                expected=expected,
                fix="change it, or remove distributed.tensor",
            )


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
