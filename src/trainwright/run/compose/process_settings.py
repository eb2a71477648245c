"""Process settings of a plan. Needs torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trainwright.contract.document import Contract
from trainwright.contract.sections.resume import Determinism
from trainwright.contract.sections.section import settled
from trainwright.engine.execution.compile import compiling
from trainwright.engine.execution.kernel_settings import deterministic, matrix_products


@contextmanager
def kernels(contract: Contract) -> Iterator[None]:
    """Apply the kernel settings of a resolved contract inside the block, and restore them
    afterwards."""
    training = contract.training
    level: Determinism = settled(contract.resume.determinism)
    compute = training.compute
    tf32 = training.mixed_precision == "tf32"
    products = matrix_products("tf32" if tf32 else settled(compute.matrix_products))
    compiles = compute.compile == "on"
    compiler = compiling("on" if compiles else "off")
    with deterministic(level, compiled=compiles), products, compiler:
        yield
