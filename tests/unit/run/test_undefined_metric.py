"""Metrics without a value on test or validation rows: known before a training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from command import Ran, command

COLUMN = "split: {kind: column, column: part}"


def train(
    folder: Path, part: str, keep: str, target: str, metric: str, model: str = "linear"
) -> Ran:
    """Train on rows of which a part keeps those of one target only."""
    draw = np.random.default_rng(0)
    a, b = draw.normal(size=(2, 400))
    names = ["train"] * 240 + ["validation"] * 80 + ["test"] * 80
    frame = pl.DataFrame({"a": a, "b": b, "part": names}).with_columns(
        pl.when(pl.col("a") + pl.col("b") > 0.7)
        .then(pl.lit("high"))
        .when(pl.col("b") > 0)
        .then(pl.lit("mid"))
        .otherwise(pl.lit("low"))
        .alias("three"),
        pl.when(pl.col("a") + pl.col("b") > 0)
        .then(pl.lit("yes"))
        .otherwise(pl.lit("no"))
        .alias("two"),
        pl.when(pl.col("part") == part).then(0.0).otherwise(pl.col("a")).alias("number"),
    )
    frame.filter((pl.col("part") != part) | pl.sql_expr(keep)).write_csv(folder / "rows.csv")
    contract = folder / "contract.yaml"
    others = sorted({"two", "three", "number"} - {target})
    contract.write_text(
        f"data:\n  path: rows.csv\n  target: {target}\n  {COLUMN}\n"
        f"  exclude: [{', '.join(others)}]\nmodel: {{kind: {model}}}\n"
        f"metric: {{name: {metric}, resamples: 100}}\n"
        + ("training: {num_epochs: 12}\n" if model == "mlp" else "")
    )
    return command("train", contract, "--runs", folder / "runs")


@pytest.mark.parametrize(
    ("keep", "target", "metric", "why"),
    [
        ("two = 'no'", "two", "roc_auc", "all are 'no'"),
        ("two = 'no'", "two", "average_precision", "none is 'yes'"),
        ("a < 9", "number", "r2", "all are '0'"),
        ("a < 9", "number", "mape", "100% of their targets are 0"),
    ],
)
def test_a_metric_without_a_value_on_the_test_rows_is_refused(
    tmp_path: Path, keep: str, target: str, metric: str, why: str
) -> None:
    ran = train(tmp_path, "test", keep, target, metric)
    assert ran.code == 2
    assert "metric.name" in ran.err
    assert why in ran.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("keep", "target", "metric", "note"),
    [
        ("two = 'no'", "two", "roc_auc", "(all are 'no'): val_loss is watched in its place"),
        ("three != 'mid'", "three", "f1_macro", "(none is 'mid'): val_loss is watched"),
        ("a < 9", "number", "r2", "(all are '0'): all steps are made"),
    ],
)
def test_a_network_watches_another_number_where_the_validation_rows_give_none(
    tmp_path: Path, keep: str, target: str, metric: str, note: str
) -> None:
    ran = train(tmp_path, "validation", keep, target, metric, "mlp")
    assert ran.code in (0, 3), ran.err
    assert note in ran.err
    assert "not a finite number" not in ran.err


def test_candidates_are_compared_by_another_number_where_the_validation_rows_give_none(
    tmp_path: Path,
) -> None:
    model = "auto, candidates: [dummy, linear], choice: simplest"
    ran = train(tmp_path, "validation", "two = 'no'", "two", "roc_auc", model)
    assert "(all are 'no'): log_loss is compared in its place" in ran.err
    assert "trained   linear" in ran.err
