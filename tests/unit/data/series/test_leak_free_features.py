"""Nothing from after an origin enters a forecast made there, except what is known beforehand."""

from __future__ import annotations

import dataclasses
import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from made_series import SECTION, made_series, write_series
from trainwright.contract.sections.data.series import SeriesData
from trainwright.data.prepare_series import prepare_series
from trainwright.data.series.lookback import ForecastRows, Lookback
from trainwright.data.series.origins import forecast_frame, usable_rows
from trainwright.data.series.panel import TimeSpacing
from trainwright.data.series.read_series import RawSeries, read_series
from trainwright.data.series.series_choices import lookback_of
from trainwright.data.types import Prepared

LEVELS = [
    (level, relation)
    for level in ("last_value", "season_mean", "season_value")
    for relation in ("difference", "ratio")
]


def read(folder: Path, frame: pl.DataFrame, **changes: Any) -> tuple[RawSeries, SeriesData]:
    write_series(folder, frame)
    encoded = {"numeric": "none", "impute": "none", "categorical": "codes"}
    written = {**SECTION, "lags": (1, 2, 7, 14), "features": encoded, **changes}
    section = SeriesData.model_validate({**written, "known": ("holiday",)})
    return read_series(section, folder), section


def encoded(prepared: Prepared) -> dict[str, Any]:
    """What is fitted; the counts of values of a column are those of its file."""
    found = prepared.features.to_json()
    return {name: found[name] for name in ("lookback", "scales", "table")}


def features_at(raw: RawSeries, lookback: Lookback, rows: ForecastRows) -> pl.DataFrame:
    frame = forecast_frame(raw.panel, rows, lookback, raw.columns)
    return frame.drop("sales")


@pytest.mark.parametrize(("level", "relation"), LEVELS)
def test_no_value_after_the_origin_changes_a_feature(
    tmp_path: Path, level: str, relation: str
) -> None:
    frame = made_series(120)
    raw, section = read(tmp_path, frame, relative_to=level, relation=relation)
    lookback = lookback_of(section, raw.panel.spacing, raw.columns)
    origin, series = 80, np.repeat([0, 1], 7)
    steps = np.tile(np.arange(1, 8), 2)
    rows = usable_rows(raw.panel, ForecastRows(series, np.full(14, origin), steps), lookback)
    assert len(rows) == 14
    before = features_at(raw, lookback, rows)
    later = pl.int_range(frame.height, eager=True) % 120 > origin
    changed = frame.with_columns(
        pl.when(later).then(pl.col(name) + 1000.0).otherwise(pl.col(name)).alias(name)
        for name in ("sales", "temperature")
    )
    other, _ = read(tmp_path, changed, relative_to=level, relation=relation)
    # The scales are those of the training part, which ends before this origin in a run.
    assert other.panel.values[0, origin + 1] > 1000
    panel = other.panel.with_scales(raw.panel.scales)
    after = forecast_frame(panel, rows, lookback, other.columns).drop("sales")
    assert after.equals(before)


def test_a_value_up_to_the_origin_and_a_known_one_do_change_features(tmp_path: Path) -> None:
    frame = made_series(120)
    raw, section = read(tmp_path, frame, relative_to="last_value", relation="difference")
    lookback = lookback_of(section, raw.panel.spacing, raw.columns)
    rows = ForecastRows(np.zeros(7, np.int64), np.full(7, 80), np.arange(1, 8))
    before = features_at(raw, lookback, rows)
    for name, at, changed in (("sales", 80, "sales_lag_2"), ("holiday", 84, "holiday")):
        row = pl.int_range(frame.height, eager=True) == at
        other = frame.with_columns(
            pl.when(row).then(pl.col(name) + 5).otherwise(pl.col(name)).alias(name)
        )
        found, _ = read(tmp_path, other, relative_to="last_value", relation="difference")
        after = features_at(found, lookback, rows)
        assert not after[changed].equals(before[changed])


def test_no_test_row_changes_a_fitted_number(tmp_path: Path) -> None:
    frame = made_series(300)
    raw, section = read(tmp_path, frame, relative_to="season_mean", relation="ratio")
    before = prepare_series(raw, section, 0)
    later = pl.int_range(frame.height, eager=True) % 300 > raw.split.validated
    changed = frame.with_columns(
        pl.when(later).then(pl.col(name) * 3.0).otherwise(pl.col(name)).alias(name)
        for name in ("sales", "temperature")
    )
    raw, section = read(tmp_path, changed, relative_to="season_mean", relation="ratio")
    after = prepare_series(raw, section, 0)
    assert encoded(after) == encoded(before)
    assert after.target.to_json() == before.target.to_json()
    assert np.array_equal(after.train.target, before.train.target)
    assert not np.array_equal(after.test.target, before.test.target)


def test_parts_do_not_overlap_in_time(tmp_path: Path) -> None:
    raw, section = read(tmp_path, made_series(300), relative_to="last_value", relation="ratio")
    prepared = prepare_series(raw, section, 0)
    train, validation, test = prepared.train, prepared.validation, prepared.test
    assert train.frame["day"].max() <= validation.frame["origin"].min()
    assert validation.frame["day"].max() <= test.frame["origin"].min()
    assert prepared.split.future_rows_in_training == 0
    assert test.frame["origin"].n_unique() == 42 - 7 + 1
    # Every origin of validation and test has its whole horizon.
    for part in (validation, test):
        counts = part.frame.group_by("shop", "origin").len()["len"]
        assert counts.unique().to_list() == [7]


@pytest.mark.parametrize("step", ["1h", "1d"])
def test_hours_and_days_are_those_of_the_clock_of_the_zone(tmp_path: Path, step: str) -> None:
    begin, end = (dt.datetime(2023, month, 1) for month in (2, 6))
    times = pl.datetime_range(begin, end, step, time_zone="Europe/Berlin", eager=True).alias("day")
    frame = pl.DataFrame([times, times.dt.day().cast(pl.Float64).alias("sales")])
    frame.write_parquet(tmp_path / "sales.parquet")
    section = SeriesData(kind="series", path="sales.parquet", target="sales", time="day", horizon=1)
    raw = read_series(section, tmp_path)
    assert raw.panel.steps == frame.height
    decided = {"season": 1, "lags": (1,), "relative_to": "nothing", "relation": "difference"}
    asked = section.model_copy(update=decided)
    spacing = TimeSpacing.from_json(raw.panel.spacing.to_json())
    lookback = lookback_of(asked, spacing, raw.columns)
    steps = np.arange(frame.height - 1)
    rows = ForecastRows(np.zeros_like(steps), steps, np.ones_like(steps))
    panel = dataclasses.replace(raw.panel, spacing=spacing)
    found = {feature.name: feature.to_list() for feature in lookback.features(panel, rows)}
    assert found["time_weekday"] == times.dt.weekday()[1:].to_list()
    assert found.get("time_hour", []) == (times.dt.hour()[1:].to_list() if step == "1h" else [])
