"""The last known target, and that of a season ago, against values worked out by hand."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from trainwright.contract.sections.data.split import Split, TimeSplit
from trainwright.contract.sections.data.table_data import Features, History, TableData
from trainwright.contract.sections.metric import Metric
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.types import Prepared
from trainwright.evaluation.baselines.naive_forecasts import PERSISTENCE, SEASONAL, forecast_naively
from trainwright.evaluation.evaluate import Scored, evaluate

BY_TIME = TimeSplit(kind="time", column="t")
START = datetime(2024, 1, 1)


def _hourly(rows: int = 24 * 60) -> pl.DataFrame:
    """A day's wave and noise, a row an hour."""
    hour = np.arange(rows)
    noise = np.random.default_rng(0).normal(size=rows)
    times = [START + timedelta(hours=int(at)) for at in hour]
    wave = 10 * np.sin(2 * np.pi * hour / 24) + noise
    return pl.DataFrame({"t": times, "x": noise, "y": wave.round(4)})


def _prepared(
    folder: Path, frame: pl.DataFrame, split: Split = BY_TIME, history: History | str = "off"
) -> tuple[Prepared, TableData]:
    frame.write_csv(folder / "a.csv")
    is_class = frame["y"].dtype == pl.String
    section = TableData(
        path="a.csv",
        target="y",
        split=split,
        features=Features(numeric="none", impute="none", history=history),
    )
    task = "classification" if is_class else "regression"
    return prepare_table(read_table(section, folder), section, task, seed=0), section


def test_each_row_is_foretold_by_the_row_before_and_by_that_of_a_day_before(tmp_path: Path) -> None:
    frame = _hourly()
    prepared, section = _prepared(tmp_path, frame)
    found = forecast_naively(prepared, section)
    rows, values = prepared.test.rows, frame["y"].to_numpy()
    np.testing.assert_array_equal(found[PERSISTENCE][:, 0], values[rows - 1])
    np.testing.assert_array_equal(found[SEASONAL][:, 0], values[rows - 24])


def test_a_gap_says_how_late_a_target_is_known(tmp_path: Path) -> None:
    frame = _hourly()
    split = TimeSplit(kind="time", column="t", gap=0.25)
    prepared, section = _prepared(tmp_path, frame, split)
    known = forecast_naively(prepared, section)[PERSISTENCE][:, 0]
    rows, values = prepared.test.rows, frame["y"].to_numpy()
    np.testing.assert_array_equal(known[6:], values[rows - 6][6:])


def test_groups_are_series_of_their_own(tmp_path: Path) -> None:
    days = 60
    times = [START + timedelta(days=at // 2) for at in range(2 * days)]
    shop = ["north" if at % 2 else "south" for at in range(2 * days)]
    sold = [(1000 if at % 2 else 0) + at // 2 for at in range(2 * days)]
    frame = pl.DataFrame({"t": times, "shop": shop, "y": sold})
    one, plain = _prepared(tmp_path, frame)
    other, grouped = _prepared(
        tmp_path,
        frame,
        history=History(time="t", group="shop", columns=("y",), lags=(2,), horizon=2),
    )
    day = one.test.rows // 2
    np.testing.assert_array_equal(forecast_naively(one, plain)[PERSISTENCE][:, 0], day - 1 + 500)
    expected = np.where(other.test.rows % 2, 1000, 0) + other.test.rows // 2 - 2
    np.testing.assert_array_equal(forecast_naively(other, grouped)[PERSISTENCE][:, 0], expected)


def test_a_class_is_as_sure_as_it_was_right(tmp_path: Path) -> None:
    frame = _hourly().with_columns(
        y=pl.when(pl.col("y") > 0).then(pl.lit("up")).otherwise(pl.lit("down"))
    )
    prepared, section = _prepared(tmp_path, frame)
    found = forecast_naively(prepared, section)[PERSISTENCE]
    before = frame["y"].to_numpy()[prepared.test.rows - 1]
    names = np.array(prepared.target.names)
    np.testing.assert_array_equal(names[found.argmax(axis=1)], before)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert 0.85 < found.max() < 1


@pytest.mark.parametrize("seasons", [1, 3])
def test_a_season_is_seen_twice_before_it_counts(tmp_path: Path, seasons: int) -> None:
    prepared, section = _prepared(tmp_path, _hourly(24 * seasons))
    assert (SEASONAL in forecast_naively(prepared, section)) == (seasons > 2)


def test_another_split_has_no_forecasts(tmp_path: Path) -> None:
    prepared, section = _prepared(tmp_path, _hourly(200))
    random = section.model_copy(update={"split": TableData(path="a.csv").split})
    assert forecast_naively(prepared, random) == {}


@pytest.mark.parametrize("is_worse", [True, False])
def test_a_model_that_loses_to_the_last_target_is_warned_of(tmp_path: Path, is_worse: bool) -> None:
    frame = _hourly().with_columns(y=pl.col("x").cum_sum())
    prepared, section = _prepared(tmp_path, frame)
    part = prepared.test
    noise = np.random.default_rng(1).normal(size=(len(part), 1)) * (9 if is_worse else 0.1)
    scored = Scored(
        part,
        prepared.target,
        part.target[:, None] + noise,
        {"dummy": np.zeros((len(part), 1)), **forecast_naively(prepared, section)},
    )
    warnings = evaluate(scored, Metric(name="rmse", resamples=100), (), seed=0).warnings
    said = [
        one
        for one in warnings
        if one.startswith("the naive forecast (last known target) is better")
    ]
    assert len(said) == is_worse
