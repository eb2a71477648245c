"""Settings of the process that decide which kernels compute. Each comes back as it was found."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, assert_never

import torch

from trainwright.contract.resume import Determinism

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
def deterministic(level: Determinism, *, compiled: bool = False) -> Iterator[None]:
    """Inside the block algorithms are as deterministic as the level says, in `compiled` kernels
    too: for `bitwise` and `run_to_run` torch takes those that give the same bits every time, and
    cuDNN chooses none by timing. `bitwise` raises RuntimeError for an operation that has none,
    `run_to_run` warns. `off` leaves everything as it is.

    Memory that is asked for is not filled, as torch does in this mode: that costs up to 5%, and
    changes nothing for a program that reads only what it wrote.
    """
    if level == "off":
        yield
        return
    if torch.cuda.is_available():
        # Read by cuBLAS when it first computes; without it, its sums depend on the stream.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.get_deterministic_debug_mode()
    filled = _fill_memory(False)
    cudnn = torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic
    torch.set_deterministic_debug_mode("error" if level == "bitwise" else "warn")
    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = False, True
    _tell_compiler(compiled)
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)
        _fill_memory(filled)
        torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = cudnn
        _tell_compiler(compiled)


def _fill_memory(fills: bool) -> bool:
    """Whether torch fills what was not written, from now on; what it was before."""
    settings = torch.utils.deterministic
    before: bool = settings.fill_uninitialized_memory  # type: ignore[attr-defined]
    settings.fill_uninitialized_memory = fills  # type: ignore[attr-defined]
    return before


def _tell_compiler(compiled: bool) -> None:
    """Only this function of torch does, and it loads the compiler for it, which takes a second."""
    if compiled:
        enabled = torch.are_deterministic_algorithms_enabled()
        warns = torch.is_deterministic_algorithms_warn_only_enabled()
        torch.use_deterministic_algorithms(enabled, warn_only=warns)
