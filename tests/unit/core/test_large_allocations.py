"""Memory of large arrays is given back, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from trainwright.core import process

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not process._has_huge_pages(),
    reason="a system without huge pages on demand",
)

# Arrays of 3 MiB between small ones that stay: what the C library keeps of them has holes.
MEASURED = """
import sys
from pathlib import Path
from trainwright.core.process import give_back_large_tensors
import numpy as np

def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) // 1024

if {set}:
    assert give_back_large_tensors()
    assert not give_back_large_tensors(), "a setting that was made stays"
first = np.ones(3 * 2**20, np.uint8)
del first
before, large, small = resident(), [], []
for _ in range(64):
    large.append(np.ones(3 * 2**20, np.uint8))
    small.append(np.ones(2**16, np.uint8))
large.clear()
print(resident() - before)
"""


def kept(given_back: bool) -> int:
    """MiB that are still held of 192."""
    own = {name: one for name, one in os.environ.items() if not name.startswith(("THP", "MALLOC"))}
    script = MEASURED.format(set=given_back)
    ran = subprocess.run(
        [sys.executable, "-c", script], env=own, capture_output=True, text=True, check=True
    )
    return int(ran.stdout)


def test_what_is_freed_is_given_back() -> None:
    assert kept(given_back=True) < 20
    assert kept(given_back=False) > 150


def test_nothing_is_changed_where_torch_is_there_or_a_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", sys)
    monkeypatch.delenv("THP_MEM_ALLOC_ENABLE", raising=False)
    assert not process.give_back_large_tensors()
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "4096")
    assert not process.give_back_large_tensors()
    assert "THP_MEM_ALLOC_ENABLE" not in os.environ
