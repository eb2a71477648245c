"""Searches that are sent to trackers."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from command import PROCESS

TREES = """\
tune:
  over:
    model.learning_rate: {low: 0.01, high: 0.5, scale: log}
    model.num_leaves: [2, 4, 8]
  trials: 4
"""


def kill_after(trials: int, study: str, *words: str) -> None:
    """Begin a study, and kill its driver by SIGKILL once so many trials have ended."""
    command = [*PROCESS, "tune", "small.yaml", "--study", study, *words]
    driver = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    ended = Path("runs") / study / "trials"
    while len(list(ended.glob("????.json"))) < trials and driver.poll() is None:
        time.sleep(0.01)
    driver.kill()
    assert driver.wait() < 0, "it was at work"
