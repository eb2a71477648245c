"""`evaluate` says so where rows that were trained on are judged, in whatever file they stand."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

import trainwright as tw
from trainwright.run.after.evaluate_rows import evaluate_rows
from trainwright.tracking.run_folder import RunFolder


def people(rows: int, seed: int, *, coarse: bool = False) -> pl.DataFrame:
    draw = random.Random(seed)
    ages = [draw.choice([20, 40, 60]) if coarse else draw.gauss(45, 15) for _ in range(rows)]
    bought = [int(age + draw.gauss(0, 12) > 50) for age in ages]
    return pl.DataFrame({"age": ages, "city": [draw.choice("ab") for _ in ages], "bought": bought})


def train(folder: Path, *, coarse: bool = False, folds: int = 0) -> RunFolder:
    people(400, 0, coarse=coarse).write_csv(folder / "rows.csv")
    data: dict[str, object] = {"path": str(folder / "rows.csv"), "target": "bought"}
    if folds:
        data["split"] = {"kind": "stratified", "folds": folds}
    sections = {
        "data": data,
        "model": {"kind": "linear"},
        "metric": {"name": "roc_auc", "target": 0.6, "resamples": 100},
    }
    return tw.train(sections, runs=folder / "runs").result.folder


def warnings(run: RunFolder, rows: pl.DataFrame, path: Path) -> list[str]:
    rows.write_parquet(path)
    found = evaluate_rows(run, path).evaluation.warnings
    return [text for text in found if "trained on" in text]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return train(tmp_path_factory.mktemp("trained"))


def test_rows_of_the_training_are_recognised_in_another_file(
    run: RunFolder, tmp_path: Path
) -> None:
    trained = pl.read_csv(run.path.parents[1] / "rows.csv")
    mixed = pl.concat([trained.head(60), people(60, 1)]).sample(fraction=1.0, shuffle=True, seed=2)
    (warning,) = warnings(run, mixed, tmp_path / "mixed.parquet")
    assert "of the 120 rows" in warning
    assert "this is no score for new data" in warning


def test_new_rows_get_no_word(run: RunFolder, tmp_path: Path) -> None:
    assert warnings(run, people(200, 5), tmp_path / "new.parquet") == []


@pytest.mark.extended
def test_rows_of_the_training_are_recognised_in_a_run_with_folds(tmp_path: Path) -> None:
    """Its own model trains on nearly all rows that the folds test."""
    run = train(tmp_path, folds=3)
    trained = pl.read_csv(tmp_path / "rows.csv")
    (warning,) = warnings(run, trained.head(300), tmp_path / "first.parquet")
    assert "(0.0% of its own test rows do)" in warning
    assert warnings(run, people(200, 5), tmp_path / "new.parquet") == []


@pytest.mark.extended
@pytest.mark.parametrize("folds", [0, 3])
def test_coarse_rows_that_repeat_by_chance_get_no_word(tmp_path: Path, folds: int) -> None:
    run = train(tmp_path, coarse=True, folds=folds)
    assert warnings(run, people(200, 5, coarse=True), tmp_path / "new.parquet") == []
