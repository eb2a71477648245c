"""Rules of `distributed`: what several processes can train."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from trainwright.contract.document import Contract
from trainwright.contract.sections.run_settings import Distributed
from trainwright.contract.sections.training.optimizer import ByValue
from trainwright.core.errors import Problem

RankStrategy = Literal["single", "ddp", "fsdp"]

_BY_NUMBER = ("adamw", "adam", "lion", "sgd", "schedule_free_adamw")
"""Optimizers that update each number by itself."""
_OWN_STATISTICS = "batch norm would keep statistics of the rows of each process"
_TOO_EARLY = "an update inside the backward pass comes before the gradients of other processes"
_NOISE_ALONE = "the gradient noise scale is measured by one process alone"


def check_replicas(section: Distributed) -> Iterator[Problem]:
    """Replicas of a model in shards are groups of as many processes."""
    number, replicas, path = section.num_gpus, section.replicas, "distributed.replicas"
    if replicas > 1 and section.strategy != "fsdp":
        found = f"strategy: {section.strategy}"
        yield Problem("ranks of ddp are replicas anyway", path=path, found=found, fix="remove it")
    elif replicas > 1 and (number == "auto" or number % replicas):
        expected = f"a divisor of num_gpus, {number}"
        yield Problem("replicas differ in size", path=path, expected=expected, fix="remove it")


def possible_strategies(contract: Contract) -> tuple[RankStrategy, ...]:
    """What `strategy: auto` may choose, the simplest first."""
    if not contract.model.is_loop_trained:
        return ("single",)
    several: tuple[RankStrategy, ...] = ("ddp", "fsdp")
    return ("single", *(name for name in several if not any(problems_of_strategy(contract, name))))


def problems_of_strategy(contract: Contract, strategy: RankStrategy) -> Iterator[Problem]:
    """What would be refused with this strategy."""
    section = contract.distributed.model_copy(update={"strategy": strategy})
    return check_ranks(contract.model_copy(update={"distributed": section}), frozenset())


def check_ranks(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Several processes train one network by steps that all of them make, or the trees of
    XGBoost."""
    section, training, windows = contract.distributed, contract.training, contract.tracking.windows
    path, strategy = "distributed.strategy", section.strategy
    if strategy == "auto":
        return
    if strategy == "single":
        if section.num_gpus not in ("auto", 1):
            yield Problem(
                "a single process trains on one device",
                path="distributed.num_gpus",
                found=str(section.num_gpus),
                expected="1 with strategy: single",
                fix="add strategy: ddp, or remove it",
            )
        return
    if contract.model.traits.divides_rows:
        if strategy != "ddp":
            yield Problem(
                "rows are divided among processes, trees are not",
                path=path,
                found=strategy,
                expected="ddp",
                fix="change it to ddp",
            )
    elif not contract.model.is_loop_trained:
        yield Problem(
            "only networks and XGBoost are trained by several processes",
            path=path,
            found=f"{strategy}, and a model of kind {contract.model.kind}",
            expected="single",
            fix="change it to single",
        )
    is_batch_norm = getattr(contract.model, "norm", "") == "batch"
    is_in_backward = training.memory.update == "in_backward"
    noise_scale = "off" if windows == "off" else windows.noise_scale
    for is_so, why, field, found, expected in (
        (is_batch_norm, _OWN_STATISTICS, "model.norm", "batch", "group"),
        (is_in_backward, _TOO_EARLY, "training.memory.update", "in_backward", "after_backward"),
        (noise_scale != "off", _NOISE_ALONE, "tracking.windows.noise_scale", noise_scale, "off"),
    ):
        if is_so:
            many = f"{expected} with several processes"
            fix = f"change it to {expected}"
            yield Problem(why, path=field, found=str(found), expected=many, fix=fix)
    if strategy == "fsdp":
        yield from _check_shards(contract)
    if contract.tune != "off":
        yield Problem(
            "the trials of a search are trained by one process each",
            path=path,
            found=strategy,
            expected="single, with trials at a time in tune.parallel",
            fix="change it to single",
        )


def _check_shards(contract: Contract) -> Iterator[Problem]:
    """What cannot be done with shards of a model, or has not been tried with them."""
    training, path = contract.training, "training"
    memory, optimizer = training.memory, training.optimizer.name
    by_value = isinstance(training.gradient_clipping, ByValue)
    thaws = [name for name, until in training.freeze.items() if until != "always"]
    asynchronous, offloads = training.checkpointing.asynchronous, memory.offload_optimizer
    for is_so, field, found, expected in (
        (optimizer not in _BY_NUMBER, "optimizer.name", optimizer, ", ".join(_BY_NUMBER)),
        (by_value, "gradient_clipping.kind", "value", "norm"),
        (asynchronous, "checkpointing.asynchronous", "true", "false"),
        (bool(thaws), "freeze", f"{', '.join(thaws)}, thawed later", "always"),
        (memory.head_loss == "fused", "memory.head_loss", "fused", "separate"),
        (offloads, "memory.offload_optimizer", "true", "false"),
        (memory.offload_activations is True, "memory.offload_activations", "true", "false"),
        (training.compute.compile == "on", "compute.compile", "on", "off"),
        (training.mixed_precision == "fp8", "mixed_precision", "fp8", "bf16 or fp32"),
    ):
        if is_so:
            yield _not_sharded(f"{path}.{field}", found, expected)
    if contract.task == "retrieval":
        yield _not_sharded("task", contract.task, "another one")
    if contract.tracking.inspect != "off":
        yield _not_sharded("tracking.inspect", "on", "off")


def _not_sharded(path: str, found: str, expected: str) -> Problem:
    return Problem(
        "it does not go with shards of a model (strategy: fsdp)",
        path=path,
        found=found,
        expected=expected,
        fix="change it, or take strategy: ddp",
    )
