"""Drift of new rows from the training profile of a bundle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from command import command
from trainwright.data.base.categories import safe_quantiles
from trainwright.predictor.drift import note_drift

CITIES = ["Bonn", "Kiel", "Ulm", "Trier"]


def rows(seed: int, count: int = 400) -> pl.DataFrame:
    draw = np.random.default_rng(seed)
    age, income = draw.normal(40, 10, count), 30_000 * np.exp(0.4 * draw.normal(size=count))
    columns = {
        "age": age,
        "income": income,
        "visits": draw.poisson(1.2, count),
        "city": draw.choice(CITIES, count, p=[0.4, 0.3, 0.2, 0.1]),
        "spent": age / 10 + np.log(income) + draw.normal(size=count),
    }
    return pl.DataFrame(columns)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drift")
    rows(0, 1500).write_csv(folder / "rows.csv")
    contract = folder / "contract.yaml"
    contract.write_text(
        "data: {path: rows.csv, target: spent}\nmodel: {kind: linear}\nmetric: {resamples: 100}\n"
    )
    ran = command("train", contract, "--runs", folder / "runs", "--run", "one")
    assert ran.code in (0, 3), ran.err
    return folder / "runs" / "one"


def drift_of(run: Path, frame: pl.DataFrame) -> list[str]:
    frame.write_csv(run.parent / "new.csv")
    ran = command("evaluate", run, run.parent / "new.csv")
    assert ran.code in (0, 3), ran.err
    return [line for line in ran.out.splitlines() if "drift:" in line]


@pytest.mark.parametrize(
    ("column", "change", "said"),
    [
        ("age", pl.col("age") + 5, "20% of the rows moved"),
        ("age", 40 + (pl.col("age") - 40) * 1.6, "of the rows moved"),
        ("income", pl.col("income") * 1.5, "of the rows moved"),
        ("visits", pl.col("visits") + 1, "of the rows moved"),
        ("age", pl.when(pl.col("age") > 33).then(pl.col("age")), "are missing, 0% were"),
        ("city", pl.lit("Ulm"), "100% are 'Ulm'"),
        ("city", pl.col("city").str.replace("Bonn", "Berlin"), "are 'B"),
    ],
)
def test_a_column_that_moved_is_named(run: Path, column: str, change: pl.Expr, said: str) -> None:
    (line,) = drift_of(run, rows(1).with_columns(change.alias(column)))
    assert f"drift: {column!r} differs from its training rows" in line
    assert said in line


def test_rows_like_those_of_the_training_have_no_drift(run: Path) -> None:
    assert [line for seed in range(2, 12) for line in drift_of(run, rows(seed))] == []


@pytest.mark.parametrize(
    "draw",
    [
        lambda random, count: random.normal(size=count),
        lambda random, count: random.poisson(0.7, count).astype(float),
        lambda random, count: np.where(random.random(count) < 0.8, 0.0, random.random(count)),
        lambda random, count: np.round(random.normal(size=count)),
        lambda random, count: (random.random(count) < 0.03).astype(float),
    ],
)
def test_few_honest_samples_are_reported(
    draw: Callable[[np.random.Generator, int], np.ndarray],
) -> None:
    def profile(values: np.ndarray) -> dict[str, object]:
        quantiles = safe_quantiles(values)
        return {"columns": [{"name": "x", "type": "numeric", "quantiles": quantiles}]}

    random = np.random.default_rng(0)
    training = {"sampled": 2000, **profile(draw(random, 2000))}
    alarms = sum(bool(note_drift(training, profile(draw(random, 300)), 300)) for _ in range(300))
    assert alarms <= 6


def test_few_independent_units_show_no_drift() -> None:
    of_column = {"name": "x", "type": "numeric"}
    before = {"columns": [{**of_column, "quantiles": safe_quantiles(np.linspace(0, 1, 900))}]}
    after = {"columns": [{**of_column, "quantiles": safe_quantiles(np.linspace(0.3, 1.3, 900))}]}
    assert note_drift({"sampled": 900, **before}, after, 900)
    assert not note_drift({"sampled": 900, **before}, after, 8)
