"""The table of automatic choices: both sides are scored on the same rows, in the same order."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import automl
from automl import Side, Table


def rows(count: int = 300) -> pl.DataFrame:
    draw = np.random.default_rng(0)
    x, z = draw.normal(size=count), draw.normal(size=count)
    income = np.where(x + z + draw.normal(size=count) > 0, ">50K", "<=50K")
    return pl.DataFrame({"x": x.round(4), "z": z.round(4), "income": income})


def knows(share: float) -> Any:
    """A peer whose probabilities follow the truth in this share of the rows."""

    def run(table: Table, frame: pl.DataFrame, tested: Any, folder: Path, *_: object) -> Any:
        truth = (frame["income"].to_numpy()[tested] == ">50K").astype(float)
        guess = np.random.default_rng(1).random(len(truth))
        p = np.where(guess < share, 0.1 + 0.8 * truth, guess)
        # Another order of the columns than that of our classes.
        pl.DataFrame({">50K": p, "<=50K": 1 - p}).write_csv(folder / "predictions.csv")
        return Side(1.0, 2.0, 3.0, "peer")

    return run


@pytest.mark.parametrize(("share", "word"), [(1.0, "behind"), (0.0, "better")])
def test_the_difference_is_paired_on_the_test_rows(
    monkeypatch: pytest.MonkeyPatch, share: float, word: str
) -> None:
    monkeypatch.setattr(Table, "read", lambda _: rows())
    monkeypatch.setattr(automl, "run_peer", knows(share))
    model = {"kind": "auto", "candidates": ["dummy", "linear"]}
    monkeypatch.setattr(automl, "MODEL", model)
    given = argparse.Namespace(seconds=36.0, rows=300, presets=["none"], keep=None)
    (pair,) = automl.compare_one(Table("adult", "roc_auc"), given)
    assert pair.word == word
    assert pair.rows == 45
    assert (pair.ours.kept, pair.theirs.kept) == ("ensemble", "peer")
    assert pair.ours.row_ms > 0
    assert pair.ours.megabytes > 0
    assert pair.cells().count("|") == automl.HEAD.count("|")
    held = "1 of 1" if word == "better" else "0 of 1"
    assert f"at least as good on {held} tables" in automl.total_of([pair])
