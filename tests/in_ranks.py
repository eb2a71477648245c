"""The command in several processes, and what they have trained."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from command import PROCESS
from deadlines import within


def in_ranks(*words: str, fault: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command, with a fault that it passes on to its processes."""
    environment = {**os.environ, "TRAINWRIGHT_FAULT": fault}
    return subprocess.run(
        [*PROCESS, *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=within(240),
        check=False,
    )


def weights(run: str) -> bytes:
    """The weights of a run's bundle."""
    return Path("runs", run, "bundle", "network.safetensors").read_bytes()
