"""Memory that could not be had: which errors say so, and how what is unused is given back."""

from __future__ import annotations

import gc

import torch

_WORDS = (
    "DefaultCPUAllocator: can't allocate memory",
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "std::bad_alloc",
)
"""What a RuntimeError of torch says where an allocation failed, on a CPU and on a GPU."""


class BackwardOutOfMemory(MemoryError):
    """Memory ran out in a forward or backward pass. Weights, moments and running statistics are as
    before the step, and no gradient is kept; only random numbers were drawn."""


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error of torch or Python means that memory ran out, of the host or of a device."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _WORDS)


def give_back_memory() -> None:
    """Free what a failed pass has left in cycles, and what the device's allocator keeps."""
    gc.collect()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()
