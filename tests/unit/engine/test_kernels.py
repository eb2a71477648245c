"""The settings of the process under which a step computes, and that they come back."""

from __future__ import annotations

import contextlib

import pytest

torch = pytest.importorskip("torch")

from trainwright.engine.execution.kernel_settings import deterministic, matrix_products  # noqa: E402

pytestmark = pytest.mark.torch

ALLOWED = {"exact": "highest", "onednn": "medium", "tf32": "high"}


@pytest.mark.parametrize("before", ALLOWED.values())
@pytest.mark.parametrize("choice", ALLOWED)
def test_products_are_as_chosen_inside_and_as_found_behind(choice: str, before: str) -> None:
    found = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(before)
        with matrix_products(choice):
            assert torch.get_float32_matmul_precision() == ALLOWED[choice]
        assert torch.get_float32_matmul_precision() == before
    finally:
        torch.set_float32_matmul_precision(found)


@pytest.mark.skipif(torch.cuda.is_available(), reason="only a CPU has such algorithms for all")
def test_algorithms_are_deterministic_inside_only() -> None:
    assert torch.get_deterministic_debug_mode() == 0
    for mode in ("default", "warn"):
        torch.set_deterministic_debug_mode(mode)
        before = torch.get_deterministic_debug_mode()
        with contextlib.suppress(ZeroDivisionError), deterministic("bitwise"):
            assert torch.get_deterministic_debug_mode() == 2
            raise ZeroDivisionError
        assert torch.get_deterministic_debug_mode() == before
    torch.set_deterministic_debug_mode("default")
