"""Process-wide kernel settings, restored on exit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, assert_never

import torch

from trainwright.contract.sections.run_settings import Determinism

MatrixProducts = Literal["exact", "onednn", "tf32"]
"""Kernels for fp32 matrix products: the default ones in fp32, oneDNN's (CPU), or TensorFloat-32
(GPU)."""


@contextmanager
def matrix_products(choice: MatrixProducts) -> Iterator[None]:
    """Use the chosen kernels for fp32 matrix products inside the block."""
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
            # torch's name for oneDNN: it may round to bf16, which it does only on processors
            # without fp32 kernels of the same speed.
            return "medium"
        case "tf32":
            return "high"
        case _:
            assert_never(choice)


@contextmanager
def deterministic(level: Determinism, *, compiled: bool = False) -> Iterator[None]:
    """Deterministic algorithms at the given level inside the block, for `compiled` kernels too.
    With `bitwise` and `run_to_run` torch uses algorithms that give the same bits every time, and
    cuDNN does not select by benchmark. `bitwise` raises RuntimeError for an operation without one,
    `run_to_run` warns. `off` changes nothing.

    Uninitialised memory is not filled, although torch does so in this mode: it costs up to 5% and
    matters only to a program that reads memory it never wrote.
    """
    if level == "off":
        yield
        return
    if torch.cuda.is_available():
        # Read by cuBLAS at its first call; without it, sums depend on the stream.
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
    """Set whether torch fills uninitialised memory; the previous setting."""
    settings = torch.utils.deterministic
    before: bool = settings.fill_uninitialized_memory  # type: ignore[attr-defined]
    settings.fill_uninitialized_memory = fills  # type: ignore[attr-defined]
    return before


def _tell_compiler(compiled: bool) -> None:
    """Set the compiler's flag. Only this torch function does, and it imports the compiler, which
    takes a second."""
    if compiled:
        enabled = torch.are_deterministic_algorithms_enabled()
        warns = torch.is_deterministic_algorithms_warn_only_enabled()
        torch.use_deterministic_algorithms(enabled, warn_only=warns)
