"""Settings of the process that decide which kernels compute. Each comes back as it was found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, assert_never

import torch

MatrixProducts = Literal["exact", "onednn", "tf32"]
"""How fp32 matrix products are computed: in fp32 by the default kernels, by oneDNN's (on a CPU), or
rounded to TensorFloat-32 (on a GPU)."""


@contextmanager
def matrix_products(choice: MatrixProducts) -> Iterator[None]:
    """Inside the block fp32 matrix products are computed as chosen, whatever was set before."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(_allowed(choice))
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _allowed(choice: MatrixProducts) -> str:
    match choice:
        case "exact":
            return "highest"
        case "onednn":
            # What torch calls it: oneDNN may round to bf16, which it does only on processors that
            # have no fp32 kernels as fast.
            return "medium"
        case "tf32":
            return "high"
        case _:
            assert_never(choice)


@contextmanager
def deterministic(*, compiled: bool = False) -> Iterator[None]:
    """On a CPU only algorithms that give the same bits every time, in `compiled` kernels too.

    On a GPU some operations have no such algorithm, and a run must not fail for that.
    """
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode(before if torch.cuda.is_available() else "error")
    _tell_compiler(compiled)
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)
        _tell_compiler(compiled)


def _tell_compiler(compiled: bool) -> None:
    """Only this function of torch does, and it loads the compiler for it, which takes a second."""
    if compiled:
        enabled = torch.are_deterministic_algorithms_enabled()
        warns = torch.is_deterministic_algorithms_warn_only_enabled()
        torch.use_deterministic_algorithms(enabled, warn_only=warns)
