"""Out-of-memory errors: detection, and releasing unused memory."""

from __future__ import annotations

import gc

import torch

_WORDS = (
    "DefaultCPUAllocator: can't allocate memory",
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "std::bad_alloc",
)
"""Messages of torch's RuntimeError for a failed allocation, on CPU and GPU."""


class BackwardOutOfMemory(MemoryError):
    """Memory ran out in a forward or backward pass. Weights, moments and running statistics are
    unchanged and no gradient is kept; only the RNG has advanced."""


def is_out_of_memory(error: Exception) -> bool:
    """Does an error of torch or Python mean that host or device memory ran out?"""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _WORDS)


def give_back_memory() -> None:
    """Free reference cycles left by a failed pass, and the device's cached blocks."""
    gc.collect()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()
