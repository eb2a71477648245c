"""Memory of the machine and of the process."""

from __future__ import annotations

import os
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def memory_bytes() -> int:
    """Memory of the machine, or of its control group if less."""
    total = os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):
        return total
    return min(total, limit)


def resident_bytes() -> int:
    """Resident memory of this process; 0 if the kernel does not report it."""
    try:
        with open("/proc/self/statm", "rb") as stream:  # noqa: PTH123  Path.open is slower
            return int(stream.read().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0
