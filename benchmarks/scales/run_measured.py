"""A process that tells what it took of time and memory: see `measured.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_MET = (0, 3)
"""Exit codes of a run that came to its verdict."""


def run_measured(folder: Path, kind: str, *words: str) -> dict[str, Any]:
    """The report of a process that ran to its end in `folder`."""
    report, scales = folder / "report.json", Path(__file__).parent
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(scales.parent), os.environ.get("PYTHONPATH", "")]),
        "TRAINWRIGHT_CACHE": str(folder / "cache"),
        "HF_HUB_OFFLINE": "1",
        # As the command sets them.
        "OMP_WAIT_POLICY": "PASSIVE",
        "GOMP_SPINCOUNT": "20000",
    }
    done = subprocess.run(
        [sys.executable, str(scales / "measured.py"), str(report), kind, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in _MET:
        raise SystemExit(f"{kind} {words} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return found
