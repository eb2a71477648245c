"""What the machine has."""

from __future__ import annotations

import os
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def memory_bytes() -> int:
    """The memory of the machine, or the limit of the control group if that is less."""
    total = os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):
        return total
    return min(total, limit)


def resident_bytes() -> int:
    """Memory of this process that is in RAM; 0 where the kernel does not tell."""
    try:
        with open("/proc/self/statm", "rb") as stream:  # noqa: PTH123  Path.open is slower
            return int(stream.read().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0
