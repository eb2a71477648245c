"""Peak FLOP/s of a device, measured and by data sheet."""

from __future__ import annotations

import time
from typing import Literal

import torch

from trainwright.engine.execution.precision import PrecisionChoice

_SIZES_ON_CPU = (256, 512, 1024, 2048)
_SIZES_ON_GPU = (2048, 4096, 8192)
_LONG_SECONDS = 0.015
_REPEATS = 3

_DENSE_TFLOPS = {
    "H200": {"fp8": 1978.9, "bf16": 989.4, "fp16": 989.4, "tf32": 494.7, "fp32": 66.9},
    "H100 80GB HBM3": {"fp8": 1978.9, "bf16": 989.4, "fp16": 989.4, "tf32": 494.7, "fp32": 66.9},
    "H100 PCIe": {"fp8": 1513.0, "bf16": 756.0, "fp16": 756.0, "tf32": 378.0, "fp32": 51.0},
    "A100": {"bf16": 312.0, "fp16": 312.0, "tf32": 156.0, "fp32": 19.5},
    "L4": {"fp8": 242.5, "bf16": 121.0, "fp16": 121.0, "tf32": 60.0, "fp32": 30.3},
    "V100": {"fp16": 125.0, "fp32": 15.7},
    "T4": {"fp16": 65.0, "fp32": 8.1},
}
"""NVIDIA's data sheets, in TFLOP/s without sparsity."""


def vendor_peak(device_name: str, choice: PrecisionChoice) -> float | Literal["unknown"]:
    """Vendor peak in FLOP/s, of dense matrix products in the format.

    `device_name` is torch's name of the device, for example `NVIDIA H200`.
    """
    words = device_name.replace("-", " ")
    for name, peaks in _DENSE_TFLOPS.items():
        if f" {name} " in f" {words} " and choice in peaks:
            return peaks[choice] * 1e12
    return "unknown"


def measure_peak(device: torch.device, choice: PrecisionChoice) -> float:
    """Best measured FLOP/s of square matrix products in the format.

    For fp8 they are those of bf16, in which everything but the float8 products is computed. It
    takes about a tenth of a second, and on a GPU up to 400 MB for that time. On a shared device it
    measures the remaining capacity.
    """
    sizes = _SIZES_ON_GPU if device.type == "cuda" else _SIZES_ON_CPU
    formats = {"bf16": torch.bfloat16, "fp8": torch.bfloat16, "fp16": torch.float16}
    dtype = formats.get(choice, torch.float32)
    best = 0.0
    for size in sizes:
        seconds = _seconds_of_product(size, dtype, device)
        best = max(best, 2 * size**3 / seconds)
        if seconds > _LONG_SECONDS:
            break
    return best


def _seconds_of_product(size: int, dtype: torch.dtype, device: torch.device) -> float:
    """Shortest time of one product of two [size, size] matrices."""
    one = torch.full((size, size), 0.5, dtype=dtype, device=device)
    out = torch.empty_like(one)
    shortest = float("inf")
    with torch.no_grad():
        torch.mm(one, one, out=out)
        for _ in range(_REPEATS):
            _wait(device)
            started = time.perf_counter()
            torch.mm(one, one, out=out)
            _wait(device)
            shortest = min(shortest, time.perf_counter() - started)
    return shortest


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
