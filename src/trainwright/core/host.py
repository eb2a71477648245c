"""What the machine has."""

from __future__ import annotations

import os
from pathlib import Path


def memory_bytes() -> int:
    """The memory of the machine, or the limit of the control group if that is less."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):
        return total
    return min(total, limit)
