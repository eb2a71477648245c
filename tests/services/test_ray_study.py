"""A study whose trials run on a Ray cluster of two nodes on this machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command import PROCESS, inside, write_project
from deadlines import within
from trainwright.core.files import read_json

pytest.importorskip("optuna")
pytest.importorskip("ray")

pytestmark = [pytest.mark.extended, pytest.mark.timeout(900)]

COUNT = 8

CONTRACT = """\
name: small
data: {path: rows.csv, target: bought, positive: "yes"}
model: {kind: boosting, max_trees: 200, learning_rate: 0.005}
metric: {name: roc_auc}
compute: {threads: 1}
tune:
  over:
    model.learning_rate: {low: 0.001, high: 0.01, scale: log}
    model.num_leaves: {low: 4, high: 31}
  trials: 8
"""

CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
cluster.wait_for_nodes()
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""
"""A cluster of two nodes with a core each, until its standard input ends."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[str, int]]:
    """Its address, and the process that all of its processes descend from."""
    environment = os.environ | {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    words = [sys.executable, "-c", CLUSTER]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        address = next(line.strip() for line in lines if re.fullmatch(r"[\d.]+:\d+\n", line))
        yield address, process.pid


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    write_project(tmp_path, CONTRACT, rows=3000)
    with inside(tmp_path):
        yield tmp_path


def start(study: str, parallel: str) -> subprocess.Popen[bytes]:
    words = ["tune", "small.yaml", "--study", study, "--set", f"tune.parallel={parallel}"]
    with Path(f"{study}.txt").open("wb") as said:
        return subprocess.Popen([*PROCESS, *words], stderr=said, stdout=said)


def finish(study: str, process: subprocess.Popen[bytes]) -> list[tuple[Any, float]]:
    """The values that the trials of a study tried, and what they reached."""
    try:
        assert process.wait(within(300)) in (0, 3), Path(f"{study}.txt").read_text()
    finally:
        process.kill()
    trials = Path("runs", study, "trials")
    names = [f"{at:04d}" for at in range(COUNT)]
    assert sorted(path.stem for path in trials.glob("????.json")) == names
    asked = [read_json(trials / f"{name}.asked.json")["params"] for name in names]
    return list(
        zip(asked, (read_json(trials / f"{one}.json")["value"] for one in names), strict=True)
    )


def trials_on(cluster: int) -> list[int]:
    """Processes of the cluster that run a trial now."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            named = (path / "cmdline").read_bytes().startswith(b"ray::run_trial")
        except OSError:
            continue
        if named and descends(int(path.name), cluster):
            found.append(int(path.name))
    return found


def descends(process: int, ancestor: int) -> bool:
    while process > 1 and process != ancestor:
        try:
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            return False
        process = int(re.findall(r"PPid:\s+(\d+)", status)[0])
    return process == ancestor


@pytest.mark.parametrize("address", ["auto", "127.0.0.1:9", "nonsense:0:1"])
def test_a_cluster_that_does_not_answer_is_one_message(project: Path, address: str) -> None:
    process = start("none", f"{{ray: '{address}', trials_at_a_time: 2}}")
    assert process.wait(within(120)) == 2
    said = Path("none.txt").read_text()
    assert "no Ray cluster can be used there" in said
    assert "Traceback" not in said
    assert not Path("runs").exists()


def test_a_cluster_tries_what_a_machine_tries_and_a_killed_worker_is_replaced(
    project: Path, cluster: tuple[str, int]
) -> None:
    local = finish("local", start("local", "2"))
    address, ancestor = cluster
    process = start("ray", f"{{ray: '{address}', trials_at_a_time: 2}}")
    deadline, begun = time.monotonic() + within(120), Path("runs/ray/trials/0002.asked.json")
    while not (begun.is_file() and (running := trials_on(ancestor))):
        assert process.poll() is None, Path("ray.txt").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(running[0], signal.SIGKILL)
    assert finish("ray", process) == local
    assert "died (WorkerCrashedError" in Path("ray.txt").read_text()
    assert len(list(Path("runs/ray").rglob("evaluation.json"))) == 1
