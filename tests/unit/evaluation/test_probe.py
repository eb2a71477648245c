"""The small model that tries what a finding names."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest

from trainwright.data.base.inputs import Floats
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.evaluation.experiments.probe import (
    ProbeKind,
    ProbeRows,
    encode,
    foretold,
    interpolated,
    out_of_fold,
)


def test_a_season_that_the_model_foretells_is_foretold_by_the_probe() -> None:
    """A clock alone tells the weekday of rows between those of training and of none after them:
    what every model knows of the future would be taken for a leak of the past."""
    start = datetime.datetime(2024, 1, 1)
    times = pl.Series("ts", [start + datetime.timedelta(hours=at) for at in range(1500)])
    noise = np.random.default_rng(0).normal(scale=0.3, size=1500)
    target = 2.0 * np.sin(2 * np.pi * np.arange(1500) / 168) + noise
    rows = ProbeRows(times.to_frame(), target, 1)
    inputs = encode(rows, [ColumnType("ts", "datetime", "", 0, 1500, "")])
    blocks = np.arange(1500) // 300
    held = blocks >= 3

    def error(scores: Floats) -> float:
        return float(np.sqrt(np.mean((scores[held, 0] - target[held]) ** 2)))

    later = error(foretold(rows, inputs, blocks, "boosting"))
    between = error(interpolated(rows, inputs, blocks, "boosting", 0))
    assert later < 1.5 * between


@pytest.mark.parametrize("kind", ["boosting", "linear"])
@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_a_probe_without_columns_gives_the_mean_of_what_it_saw(
    kind: ProbeKind, outputs: int
) -> None:
    """What is left where every column is part of the finding."""
    target = np.arange(12) % outputs if outputs > 1 else np.arange(12.0)
    rows = ProbeRows(pl.DataFrame({"x": np.zeros(12)}), target, outputs)
    folds = np.arange(12) % 2
    scores = out_of_fold(rows, encode(rows, []), folds, kind, level=False)
    assert scores.shape == (12, outputs)
    for fold in (0, 1):
        seen = target[folds != fold]
        wanted = (
            [seen.mean()]
            if outputs == 1
            else (np.bincount(seen, minlength=outputs) + 0.5) / (len(seen) + 0.5 * outputs)
        )
        assert np.allclose(scores[folds == fold], wanted)
