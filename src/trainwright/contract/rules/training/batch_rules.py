"""Rules about the rows of a step: batches, micro-batches and devices."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.core.errors import Problem


def batch_arithmetic(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """batch_size x gradient_accumulation_steps x devices is effective_batch_size."""
    training = contract.training
    batch, accumulation = training.batch_size, training.gradient_accumulation_steps
    effective = training.effective_batch_size
    devices = 1 if contract.distributed.num_gpus == "auto" else contract.distributed.num_gpus
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
