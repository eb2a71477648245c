"""The small model that tries what a finding names."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl

from trainwright.data.columns import ColumnType
from trainwright.data.table import Floats
from trainwright.evaluation.experiments.probe import Rows, encode, foretold, interpolated


def test_a_season_that_the_model_foretells_is_foretold_by_the_probe() -> None:
    """A clock alone tells the weekday of rows between those of training and of none after them:
    what every model knows of the future would be taken for a leak of the past."""
    start = datetime.datetime(2024, 1, 1)
    times = pl.Series("ts", [start + datetime.timedelta(hours=at) for at in range(1500)])
    noise = np.random.default_rng(0).normal(scale=0.3, size=1500)
    target = 2.0 * np.sin(2 * np.pi * np.arange(1500) / 168) + noise
    rows = Rows(times.to_frame(), target, 1)
    inputs = encode(rows, [ColumnType("ts", "datetime", "", 0, 1500, "")])
    blocks = np.arange(1500) // 300
    held = blocks >= 3

    def error(scores: Floats) -> float:
        return float(np.sqrt(np.mean((scores[held, 0] - target[held]) ** 2)))

    later = error(foretold(rows, inputs, blocks, "boosting"))
    between = error(interpolated(rows, inputs, blocks, "boosting", 0))
    assert later < 1.5 * between
