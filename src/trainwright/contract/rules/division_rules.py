"""Rules of `distributed.tensor` and `distributed.pipeline`: which models can be divided over
processes, and what cannot be done with a divided one."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.training.optimizer import Adam, AdamW, Sgd
from trainwright.core.errors import Problem


def check_division(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
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
    for where, found, expected in _refused(contract):
        yield Problem(
            f"it does not go with {path}",
            path=where,
            found=found,
            expected=expected,
            fix=f"change it, or remove {path}",
        )


def _refused(contract: Contract) -> Iterator[tuple[str, str, str]]:
    """Path and value of each setting that a divided model does not have, and what it may be."""
    training, at = contract.training, "training"
    memory, optimizer, precision = training.memory, training.optimizer, training.mixed_precision
    if contract.model.has_adapter:
        yield "model.adapter", "an adapter", "none"
    if not isinstance(optimizer, Sgd | Adam | AdamW):
        # They update each number by itself.
        yield f"{at}.optimizer.name", optimizer.name, "adamw, adam or sgd"
    if training.average != "off":
        yield f"{at}.average", "an average of weights", "off"
    if training.freeze:
        yield f"{at}.freeze", ", ".join(training.freeze), "no frozen modules"
    if memory.head_loss == "fused":
        yield f"{at}.memory.head_loss", "fused", "separate"
    if memory.offload_optimizer:
        yield f"{at}.memory.offload_optimizer", "true", "false"
    if memory.activation_checkpointing not in ("off", "full"):
        yield f"{at}.memory.activation_checkpointing", "some of it", "off or full"
    if training.compute.compile == "on":
        yield f"{at}.compute.compile", "on", "off"
    if precision in ("fp16", "fp8"):
        yield f"{at}.mixed_precision", precision, "bf16 or fp32"
    if contract.distributed.pipeline > 1:
        yield from _refused_in_stages(contract)


def _refused_in_stages(contract: Contract) -> Iterator[tuple[str, str, str]]:
    """The same for stages, each of which has other blocks and sees its micro-batches one by one."""
    data, training, at = contract.data, contract.training, "training"
    optimizer = training.optimizer
    if data.is_paired:
        yield "data.kind", "preferences", "texts"
    elif data.is_padded:
        yield "data.windows", "padded", "windows of one length"
    if training.ramps.sequence != "off":
        yield f"{at}.ramps.sequence", "a ramp", "off"
    if training.teacher != "none":
        yield f"{at}.teacher", "a teacher", "none"
    if optimizer.learning_rate_factors or optimizer.layer_decay != 1:
        yield f"{at}.optimizer", "a rate of its own for some layers", "one rate for all"
    if contract.model.scales_with_width:
        yield "model.init", "mup", "usual"
    if training.checkpointing.asynchronous:
        yield f"{at}.checkpointing.asynchronous", "true", "false"
