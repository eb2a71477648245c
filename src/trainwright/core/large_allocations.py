"""Memory of large tensors on a CPU, given back when they are freed."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_LARGE_BYTES = 2 * 2**20
_MMAP_THRESHOLD = -3
_TORCH = "THP_MEM_ALLOC_ENABLE"
_OF_GLIBC = "MALLOC_MMAP_THRESHOLD_"
_HUGE = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def give_back_large_tensors() -> bool:
    """Map each tensor of at least two mebibytes by itself from now on; whether that is so.

    The C library keeps what is freed below a limit that rises to 32 MiB, for what comes next; of
    tensors of many sizes that leaves holes, which take a fifth of the memory of a training beside
    a frozen base. A mapping is cleared page by page, which would cost more time than it saves but
    for the huge pages that torch asks for. So nothing is changed where these are not given, where
    torch was imported before, as it reads its setting once, or where a setting was made for it.
    """
    chosen = _TORCH in os.environ or _OF_GLIBC in os.environ
    if sys.platform != "linux" or "torch" in sys.modules or chosen or not _has_huge_pages():
        return False
    try:
        is_set = bool(ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE_BYTES))
    except (OSError, AttributeError):  # another C library
        return False
    if is_set:
        os.environ[_TORCH] = "1"
    return is_set


def _has_huge_pages() -> bool:
    """Does the system give huge pages to those who ask?"""
    try:
        return "[never]" not in _HUGE.read_text(encoding="ascii")
    except OSError:
        return False
