"""Several processes grow the trees of XGBoost from a contract, and again after one has died."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from command import PROCESS, command, project_in
from deadlines import within
from rank_runs import on_ranks, run_ranks

pytestmark = pytest.mark.torch

TREES = """
data: {path: rows.csv, target: bought, positive: "yes"}
model: {kind: xgboost, max_trees: 12, max_depth: 3, bagging_fraction: 1, class_weights: balanced}
metric: {name: log_loss, resamples: 100}
"""
TWO = on_ranks("ddp", 2)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, TREES)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        *(
            ([f"model={{kind: {kind}}}"], f"ddp, and a model of kind {kind}")
            for kind in ("boosting", "catboost", "forest", "linear", "neighbours", "auto")
        ),
        (["distributed.strategy=fsdp"], "rows are divided among processes, trees are not"),
        (["distributed.tensor=2"], "this kind of model cannot be divided"),
        (["data.target=age", "metric={name: mae}"], "ddp, and the objective absolute_error"),
        (["data.target=age", "model.objective=quantile", "metric={name: pinball}"], "quantile"),
        (["distributed.num_gpus=auto"], "distributed.num_gpus"),
    ],
)
def test_what_several_processes_cannot_grow_is_refused(
    project: Path, settings: list[str], said: str
) -> None:
    words = [word for setting in settings for word in ("--set", setting)]
    asked = "train" if "num_gpus" in said else "check"
    ran = command(asked, "small.yaml", *TWO, *words)
    assert ran.code == 2, ran.out
    assert said in ran.err
    assert not Path("runs").exists()


@pytest.mark.extended
def test_a_killed_rank_is_started_again_with_the_others_and_all_trees_are_grown(
    project: Path,
) -> None:
    whole = run_ranks("train", "small.yaml", "--run", "whole", "--json", *TWO, seconds=60)
    assert whole.returncode in (0, 3), whole.stderr
    assert whole.stdout.startswith("{"), "XGBoost prints nothing among the results"
    with subprocess.Popen(
        [*PROCESS, "train", "small.yaml", "--run", "broken", *TWO, "--restart", "1"],
        env={**os.environ, "TRAINWRIGHT_FAULT": "rank1:tree:*:delay=0.1"},
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        until = time.monotonic() + within(60)
        while not Path("runs/broken/ranks/rows/values.json").exists():
            assert time.monotonic() < until
            time.sleep(0.05)
        time.sleep(0.6)
        os.kill(process_of_rank(1, running.pid), signal.SIGKILL)
        _, said = running.communicate(timeout=within(60))
    assert running.returncode in (0, 3), said
    assert said.count("plan      xgboost") == 2, said
    assert "Traceback" not in said
    kept = [Path("runs", run, "bundle/xgboost.json").read_bytes() for run in ("broken", "whole")]
    assert kept[0] == kept[1]


def process_of_rank(rank: int, group: int) -> int:
    """The process of a rank among those that `group` has started."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        own = b"TRAINWRIGHT_RANKS=" in b"\0".join(variables)
        if own and f"RANK={rank}".encode() in variables and has_ancestor(folder.name, group):
            return int(folder.name)
    raise AssertionError(f"rank {rank} does not run")


def has_ancestor(process: str, ancestor: int) -> bool:
    while int(process) > 1:
        if int(process) == ancestor:
            return True
        process = Path("/proc", process, "stat").read_text().rpartition(")")[2].split()[1]
    return False
