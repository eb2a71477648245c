from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from command import command, inside, write_project
from trainwright.core.files import read_json

pytest.importorskip("optuna")

pytestmark = pytest.mark.extended

CONTRACT = """\
name: small
data: {path: rows.csv, target: bought, positive: "yes"}
model: {kind: boosting, max_trees: 5, num_leaves: 8}
metric: {name: roc_auc}
tune:
  over:
    model.learning_rate: {low: 0.01, high: 0.3, scale: log}
  trials: 12
  method: random
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a study `before` of 12 trials."""
    folder = tmp_path_factory.mktemp("studies")
    write_project(folder, CONTRACT)
    with inside(folder):
        assert command("tune", "small.yaml", "--study", "before").code in (0, 3)
        yield folder


def search(name: str, *settings: str) -> list[dict[str, float]]:
    """The values of the trials of a short study by TPE."""
    words = [word for one in ("tune.method=tpe", *settings) for word in ("--set", one)]
    ran = command("tune", "small.yaml", "--study", name, *words, "--set", "tune.trials=3")
    assert ran.code in (0, 3), ran.err
    paths = sorted(Path("runs", name, "trials").glob("*.asked.json"))
    return [read_json(path)["params"] for path in paths]


def test_a_study_knows_the_trials_of_another_before_its_first(project: Path) -> None:
    cold = search("cold")
    warm = search("warm", "tune.start=runs/before")
    assert cold[0] == warm[0] == {}
    assert cold[1] != warm[1]
    known = read_json(Path("runs/warm/study.json"))["start"]
    values = [read_json(Path(f"runs/before/trials/{at:04d}.json"))["value"] for at in range(12)]
    assert [value for _, value in known] == values
    assert known[3][0] == read_json(Path("runs/before/trials/0003.asked.json"))["params"]
    assert list(known[0][0]) == ["model.learning_rate"]
    assert search("again", "tune.start=runs/before") == warm


def test_a_warm_study_goes_on_without_the_other(project: Path) -> None:
    shutil.copytree("runs/before", "runs/lent")
    begun = search("lending", "tune.start=runs/lent")
    shutil.rmtree("runs/lent")
    for path in Path("runs/lending/trials").glob("0002*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree("runs/lending/trials/0001")
    words = ("--set", "tune.method=tpe", "--set", "tune.start=runs/lent", "--set", "tune.trials=3")
    again = command("tune", "small.yaml", "--study", "lending", "--resume", *words)
    assert "trial     2" in again.err, again.err
    assert read_json(Path("runs/lending/trials/0002.asked.json"))["params"] == begun[2]


def test_only_trials_whose_values_lie_in_the_space_are_known(project: Path) -> None:
    limits = "tune.over={model.learning_rate: {low: 0.05, high: 0.3}, model.num_leaves: [8, 16]}"
    search("narrow", limits, "tune.start=runs/before")
    known = read_json(Path("runs/narrow/study.json"))["start"]
    assert 0 < len(known) < 12
    assert all(params["model.learning_rate"] >= 0.05 for params, _ in known)
    assert all(params["model.num_leaves"] == 8 for params, _ in known)


@pytest.mark.parametrize(
    ("start", "setting", "word"),
    [
        ("runs/none", "seed=0", "there is no study"),
        ("runs/before/trials/0001", "seed=0", "there is no study"),
        ("runs/before", "metric.name=log_loss", "another metric"),
    ],
)
def test_another_folder_or_metric_is_one_message(
    project: Path, start: str, setting: str, word: str
) -> None:
    words = ("--set", f"tune.start={start}", "--set", setting)
    ran = command("tune", "small.yaml", "--study", "refused", *words)
    assert ran.code == 2
    assert word in ran.err
    assert "tune.start" in ran.err
    assert not Path("runs/refused").exists()


def test_a_study_with_folds_is_one_to_start_from(project: Path) -> None:
    words = ("--set", "tune.folds=2", "--set", "tune.trials=3")
    assert command("tune", "small.yaml", "--study", "folded", *words).code in (0, 3)
    words = ("--set", "tune.start=runs/folded", "--set", "tune.trials=2")
    ran = command("tune", "small.yaml", "--study", "after", *words)
    assert ran.code in (0, 3), ran.err
    assert "of 3 complete trials of runs/folded lie in this space" in ran.err
    assert project.is_dir()
