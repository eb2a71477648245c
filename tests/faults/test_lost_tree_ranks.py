"""Two ranks that grow the trees of XGBoost, one of which is killed: all are grown again, and are
those of one process."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from command import write_rows
from deadlines import within
from faults.ranks import RankTrial
from faults.trials import Canary, Trial
from faults.zygote import Zygote
from trainwright.core.files import read_json

pytestmark = pytest.mark.torch

CONTRACT = """
data: {path: rows.csv, target: bought, positive: "yes"}
model: {kind: xgboost, max_trees: 12, max_depth: 3, bagging_fraction: 1, class_weights: balanced}
metric: {name: log_loss, resamples: 100}
"""
TREES = Canary("trees", CONTRACT, lambda folder: write_rows(folder / "rows.csv", 400))


def test_two_ranks_grow_the_trees_of_one_process_after_one_was_killed(
    zygote: Zygote, tmp_path: Path
) -> None:
    alone = Trial(zygote, TREES, tmp_path / "alone", words=("--set", "compute.threads=1"))
    alone.ends_well()
    in_files = ("--set", "data.reading.rows_in=files")
    broken = RankTrial(zygote, TREES, tmp_path / "ranks", words=in_files)
    broken.loses(1, "tree:5:kill")
    broken.ends_well()
    assert splits(broken) == splits(alone)
    assert value(broken) == pytest.approx(value(alone), rel=1e-4)
    assert not (broken.run.path / "ranks" / "rows").exists()


def test_a_first_rank_that_fails_ends_the_others(zygote: Zygote, tmp_path: Path) -> None:
    trial = RankTrial(zygote, TREES, tmp_path / "ranks")
    first, second = trial.wait_all(trial.start_all("rank0:tree:5:enospc"))
    assert (first.code, second.code) == (13, 0), (first.output, second.output)
    trial.ends_well()


@pytest.mark.extended
def test_a_signal_to_both_ranks_ends_the_growth_after_the_same_tree(
    zygote: Zygote, tmp_path: Path
) -> None:
    trial = RankTrial(zygote, TREES, tmp_path / "ranks")
    deaths = trial.wait_all(trial.start_all("rank0:tree:5:term,rank1:tree:4:term"))
    assert [death.code for death in deaths] == [75, 75], deaths[0].output
    trial.ends_well()


@pytest.mark.extended
def test_a_stopped_rank_is_named_and_ended(zygote: Zygote, tmp_path: Path) -> None:
    how = {"frozen_after": (within(4.0), within(12.0))}
    trial = RankTrial(zygote, TREES, tmp_path / "ranks", how=how)
    children = trial.start_all("rank0:tree:*:delay=0.3")
    until = time.monotonic() + within(60)
    while not (trial.run.path / "ranks" / "rows" / "values.json").exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    time.sleep(1)
    os.kill(children[1].pid, signal.SIGSTOP)
    deaths = trial.wait_all(children)
    assert [death.code for death in deaths] == [16, -signal.SIGVTALRM], deaths
    assert "rank 1 (process" in deaths[0].output
    assert "has given no sign for" in deaths[0].output
    trial.ends_well()


def splits(trial: Trial) -> list[Any]:
    """What the trees start from, and the features of their splits."""
    learner = read_json(trial.run.bundle / "xgboost.json")["learner"]
    (start,) = json.loads(learner["learner_model_param"]["base_score"])
    trees = learner["gradient_booster"]["model"]["trees"]
    return [round(start, 6), *(tree["split_indices"] for tree in trees)]


def value(trial: Trial) -> float:
    """The metric of the test rows."""
    metrics = read_json(trial.run.evaluation)["evaluation"]["metrics"]
    return float(metrics["log_loss"]["value"])
