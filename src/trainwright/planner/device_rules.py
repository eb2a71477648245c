"""Contract settings that the device does not support."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.core.errors import Problem
from trainwright.planner.read_device import DeviceFacts
from trainwright.planner.resolve.compute_choices import COMPILE, FORMAT, PRODUCTS


def problems_with_device(contract: Contract, device: DeviceFacts) -> Iterator[Problem]:
    """All such problems with their paths, without places."""
    if not contract.model.is_loop_trained:
        return
    training = contract.training
    if training.mixed_precision == "fp8" and not device.has_fp8:
        yield Problem(
            f"{device.name} does not compute in fp8",
            path=FORMAT,
            found="fp8",
            expected="a GPU of compute capability 8.9 or above",
            fix="write bf16, or train on such a GPU",
        )
    if training.compute.matrix_products == "onednn" and device.kind != "cpu":
        yield Problem(
            f"oneDNN does not compute on {device.name}",
            path=PRODUCTS,
            found="onednn",
            expected="a CPU",
            fix="write exact, or mixed_precision: tf32 for faster products on a GPU",
        )
    if training.compute.compile == "on" and not device.can_compile:
        needed = "Triton" if device.kind == "cuda" else "a C++ compiler, g++ or clang++"
        yield Problem(
            "what torch.compile needs is not installed",
            path=COMPILE,
            found="on",
            expected=needed,
            fix=f"install {needed}, or write off",
        )
