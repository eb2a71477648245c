"""`training.seeds`: several trainings on one split, and how much their scores differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from command import (  # noqa: E402
    CONTRACT,
    NETWORK,
    command,
    inside,
    project_in,
    stopped_at,
    train_one,
    write_project,
)
from trainwright.core.files import (  # noqa: E402
    hash_file,
    read_json,
)

pytestmark = pytest.mark.torch

THREE = NETWORK.replace("training:\n", "training:\n  seeds: 3\n")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With the run `whole` of three seeds, and `alone` of the second one."""
    folder = tmp_path_factory.mktemp("seeds")
    write_project(folder, THREE)
    with inside(folder):
        whole = command("train", "small.yaml", "--run", "whole")
        assert whole.code in (0, 3), whole.err
        assert "over 3 seeds" in whole.err
        alone = ("--set", "training.seeds=1", "--set", "seed=1")
        assert command("train", "small.yaml", "--run", "alone", *alone).code in (0, 3)
        yield folder


def evaluation(run: str) -> Any:
    return read_json(Path("runs", run, "evaluation.json"))


@pytest.mark.extended
def test_each_seed_gives_what_it_gives_alone(project: Path) -> None:
    found = evaluation("whole")["by_seed"]
    assert found["seeds"] == [0, 1, 2]
    values = found["metrics"]["roc_auc"]
    assert len(set(values)) == 3
    own = evaluation("whole")["evaluation"]["metrics"]["roc_auc"]["value"]
    alone = evaluation("alone")["evaluation"]["metrics"]["roc_auc"]["value"]
    assert values[:2] == pytest.approx([own, alone], rel=1e-12)
    assert evaluation("alone")["by_seed"]["seeds"] == []


@pytest.mark.extended
def test_the_report_shows_the_spread(project: Path) -> None:
    page = Path("runs/whole/report.html").read_text()
    assert "<h2>Seeds</h2>" in page
    assert "standard deviation" in page
    assert "<h2>Seeds</h2>" not in Path("runs/alone/report.html").read_text()


def test_a_seed_that_decides_is_warned_of(project: Path) -> None:
    values = evaluation("whole")["by_seed"]["metrics"]["roc_auc"]
    between = sum(sorted(values)[:2]) / 2
    ran = command("train", "small.yaml", "--json", "--set", f"metric.target={between}")
    warnings = json.loads(ran.out)["warnings"]
    assert any("the seed decides" in one and "2 of them reach" in one for one in warnings)
    assert "the seed decides" not in "".join(evaluation("whole")["evaluation"]["warnings"])


@pytest.mark.extended
@pytest.mark.parametrize("step", [10, 40, 70])
def test_a_run_that_is_stopped_ends_with_the_same_models(project: Path, step: int) -> None:
    name = f"cut-{step}"
    done = stopped_at(step, "train", "small.yaml", "--run", name)
    assert done.code == 75, done.err
    assert command("train", "small.yaml", "--run", name, "--resume").code in (0, 3)
    for part in ("seeds/01", "seeds/02", "."):
        weights = [
            hash_file(Path("runs", run, part, "bundle/network.safetensors"))
            for run in ("whole", name)
        ]
        assert weights[0] == weights[1], part
    assert evaluation(name)["by_seed"] == evaluation("whole")["by_seed"]
    verified = command("runs", "verify", name)
    assert verified.code == 0, verified.out
    assert "seed 01: " in verified.out


def test_trees_have_seeds_and_linear_models_have_none(tmp_path: Path) -> None:
    for _ in project_in(tmp_path, CONTRACT):
        settings = ("training.seeds=2", "metric.resamples=100")
        assert train_one(*settings).code in (0, 3)
        assert evaluation("one")["by_seed"]["seeds"] == [0, 1]
        refused = command(
            "check", "small.yaml", "--set", "training.seeds=2", "--set", "model={kind: linear}"
        )
        assert refused.code == 2
        folds = command(
            "check", "small.yaml", "--set", "training.seeds=2", "--set", "data.split.folds=3"
        )
        assert folds.code == 2
        assert "remove training.seeds, or data.split.folds" in folds.err
