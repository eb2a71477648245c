"""Rules on the kernels of a step."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.core.errors import Problem

_COMPUTE = "training.compute"


def check_memory_format(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Channels are what convolutions have."""
    chosen = contract.training.compute.memory_format
    if chosen == "channels_last" and not contract.model.traits.has_convolutions:
        yield Problem(
            f"a model of kind {contract.model.kind} has no convolutions",
            path=f"{_COMPUTE}.memory_format",
            found=chosen,
            expected="contiguous, or auto",
            fix="remove it",
        )


def check_matrix_products(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """One switch of torch allows the kernels of both, so that only one of them can be meant."""
    training = contract.training
    if training.mixed_precision == "tf32" and training.compute.matrix_products == "onednn":
        yield Problem(
            "tf32 is for GPUs and onednn for CPUs",
            path=f"{_COMPUTE}.matrix_products",
            found="onednn beside mixed_precision: tf32",
            expected="one of the two",
            fix="write training.mixed_precision: fp32, or remove matrix_products",
        )
