"""F-32: the address space of the process has a limit, and the allocator itself says no."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from command import CONTRACT, write_project
from deadlines import within

pytestmark = pytest.mark.torch

DEEP = CONTRACT.replace("kind: boosting", "kind: mlp").replace(
    "max_trees: 5", f"hidden: {[256] * 10}"
)
TRAINING = "training: {num_epochs: 1, batch_size: 8192}\n"

LIMITED = """
import resource, sys, threading
from pathlib import Path

import sklearn.metrics  # libraries are loaded before the limit: it is for the training
import trainwright.run.learners.network_learner as network
from trainwright.cli.main import main

threading.stack_size(512 * 2**10)  # the stack of a thread that saves counts too: 8 MiB each
fit = network.fit

def limited(job):
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 160 * 2**20, resource.RLIM_INFINITY))
    ended = fit(job)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return ended

network.fit = limited
sys.argv[0] = "trainwright"
main()
"""
"""The command, with 160 MiB for the loop: too few for a micro-batch of 4,096 rows, and far more
than one of 2,048 takes, so that the save after it has room."""


@pytest.mark.extended
@pytest.mark.row("F-32")
def test_the_training_goes_on_with_smaller_micro_batches(tmp_path: Path) -> None:
    write_project(tmp_path, DEEP + TRAINING, rows=12_000)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "train", "small.yaml", "--run", "one"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=within(100),
    )
    assert done.returncode in (0, 3), done.stderr
    lines = (tmp_path / "runs/one/events.jsonl").read_text().splitlines()
    noted = [event for event in map(json.loads, lines) if event["event"] == "noted"]
    assert noted
    assert {event["kind"] for event in noted} == {"out_of_memory"}
