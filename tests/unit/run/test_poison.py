"""Nothing of the held-out rows reaches what is fitted: they are poisoned, and no bit changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from command import CONTRACT, command, inside, write_rows
from trainwright.core.files import hash_file, read_json

SPLIT = CONTRACT.replace(
    "  target: bought\n", "  target: bought\n  split: {kind: column, column: part}\n"
)
NETWORK = SPLIT.replace("kind: boosting\n  max_trees: 5", "kind: mlp\n  hidden: [8]") + (
    "training:\n  num_epochs: 3\n  batch_size: 32\n  early_stopping: off\n"
)
LINEAR = SPLIT.replace("kind: boosting\n  max_trees: 5", "kind: linear")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    write_rows(tmp_path / "all.csv")
    with inside(tmp_path):
        rows = pl.read_csv("all.csv")
        named = ["train", "train", "validation", "train", "test"] * 60
        rows.with_columns(part=pl.Series(named)).write_csv("rows.csv")
        yield tmp_path


def fitted(run: str) -> dict[str, str]:
    """The files of a run's bundle, its fitted baselines with it. What is noted of the whole file in
    passing (how many values a column has), and the profile, which holds the predictions of the
    validation rows, are no part of what was fitted."""
    assert command("train", "small.yaml", "--run", run).code in (0, 3)
    bundle, baselines = Path("runs", run, "bundle"), Path("runs", run, "baselines")
    files = [*bundle.iterdir(), *baselines.rglob("*")]
    return {
        str(path.relative_to(f"runs/{run}")): known(path)
        for path in files
        if path.is_file() and path.name not in ("bundle.json", "profile.json")
    }


def known(path: Path) -> str:
    if path.name != "features.json":
        return hash_file(path)
    features = read_json(path)
    columns = [(one["name"], one["kind"], one["format"]) for one in features["columns"]]
    return str({**features, "columns": columns})


def poison(part: str) -> None:
    """Numbers far off, other words and the other class in the rows of a part."""
    rows = pl.read_csv("rows.csv")
    there = pl.col("part") == part
    rows.with_columns(
        age=pl.when(there).then(pl.col("age") * 1000 - 7).otherwise(pl.col("age")),
        visits=pl.when(there).then(None).otherwise(pl.col("visits")),
        city=pl.when(there).then(pl.lit("Atlantis")).otherwise(pl.col("city")),
        bought=pl.when(there)
        .then(pl.col("bought").replace({"yes": "no", "no": "yes"}))
        .otherwise(pl.col("bought")),
    ).write_csv("rows.csv")


@pytest.mark.parametrize(
    ("contract", "part"),
    [
        (SPLIT, "test"),
        (LINEAR, "test"),
        (LINEAR, "validation"),
        pytest.param(NETWORK, "test", marks=pytest.mark.torch),
        pytest.param(NETWORK, "validation", marks=pytest.mark.torch),
    ],
)
def test_poisoned_rows_change_no_bit_of_the_model(project: Path, contract: str, part: str) -> None:
    if contract is NETWORK:
        pytest.importorskip("torch")
    Path("small.yaml").write_text(contract)
    before = fitted("before")
    score = read_json(Path("runs/before/evaluation.json"))["evaluation"]["metrics"]["roc_auc"]
    poison(part)
    assert fitted("after") == before
    again = read_json(Path("runs/after/evaluation.json"))["evaluation"]["metrics"]["roc_auc"]
    assert (again == score) == (part == "validation")


@pytest.mark.extended
def test_poisoned_validation_rows_steer_trees_and_change_no_feature(project: Path) -> None:
    Path("small.yaml").write_text(SPLIT)
    before = fitted("before")
    poison("validation")
    after = fitted("after")
    for name in ("bundle/features.json", "bundle/target.json", "baselines/linear/features.json"):
        assert after[name] == before[name]


def test_poisoned_training_rows_do_change_it(project: Path) -> None:
    Path("small.yaml").write_text(LINEAR)
    before = fitted("before")
    poison("train")
    after = fitted("after")
    assert all(
        after[name] != before[name] for name in ("bundle/features.json", "bundle/linear.json")
    )
