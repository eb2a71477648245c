"""The settings of the process that a plan computes under. Needs torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trainwright.contract.section import settled
from trainwright.contract.training import Training
from trainwright.engine.compiling import compiling
from trainwright.engine.kernels import deterministic, matrix_products


@contextmanager
def kernels(training: Training) -> Iterator[None]:
    """Inside the block the process computes as the plan says; then as it did before."""
    compute = training.compute
    tf32 = training.mixed_precision == "tf32"
    products = matrix_products("tf32" if tf32 else settled(compute.matrix_products))
    compiles = compute.compile == "on"
    with deterministic(compiled=compiles), products, compiling("on" if compiles else "off"):
        yield
