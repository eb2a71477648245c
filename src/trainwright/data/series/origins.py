"""Origins of forecasts: which train, steer and judge, and their rows as a frame."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import polars as pl

from trainwright.core.errors import DataMistake, Problem
from trainwright.data.base.inputs import Floats, Integers, PartName
from trainwright.data.base.levels import Levels
from trainwright.data.columns.column_kinds import ColumnType, Kind
from trainwright.data.series.lookback import (
    ORIGIN,
    STEP,
    ForecastRows,
    Lookback,
    all_rows,
    last_known,
    values_at,
)
from trainwright.data.series.panel import SeriesPanel
from trainwright.data.series.series_columns import SeriesColumns

FEWEST_BLOCKS = 5
"""Blocks of origins that an interval takes."""

_TEST_SHARE, _MOST_SHARE = 0.15, 4
_HIDDEN: Final = "\uffff"
_OFFSET, _SCALE, _ERROR_SCALE = (f"{_HIDDEN}{name}" for name in ("offset", "scale", "error_scale"))

PERSISTENT, SEASONAL_VALUE, DRIFTING = (
    f"{_HIDDEN}{name}" for name in ("persistence", "seasonal_naive", "drift")
)
"""Columns of the forecasts that need no model."""

_REASON = "what is known of a series at the origin, or of the forecast time"


@final
@dataclass(frozen=True, slots=True)
class OriginSplit:
    """The steps of T that end the training part and the validation part: `trained` is the last step
    of the training part and `validated` that of the validation part, after which the test part
    begins. A forecast belongs to the part in which its origin and its step lie; the last step of a
    part is the first origin of the next."""

    steps: int
    trained: int
    validated: int
    horizon: int
    season: int

    def origins(self, part: PartName, fewest: int) -> Integers:
        """The origins of a part, ascending: those of validation and test have their whole horizon
        within it; the first ones of the training have `fewest` steps behind them."""
        match part:
            case "train":
                return np.arange(fewest - 1, self.trained)
            case "validation":
                return np.arange(self.trained, self.validated - self.horizon + 1)
            case "test":
                return np.arange(self.validated, self.steps - self.horizon)

    def end(self, part: PartName) -> int:
        """The last step that a part forecasts."""
        return {"train": self.trained, "validation": self.validated, "test": self.steps - 1}[part]

    def rows(self, part: PartName, values: Floats, fewest: int, most_rows: int) -> ForecastRows:
        """Forecasts of a part for series with these values [S, T], each with a known target; of
        more than `most_rows`, those of evenly spaced origins, which fall on all places of a
        season."""
        origins = self.origins(part, fewest)
        stride = max(1, -(-len(origins) * len(values) * self.horizon // most_rows))
        while math.gcd(stride, self.season) > 1:
            stride += 1
        chosen = origins[::-1][::stride][::-1]
        series = np.repeat(np.arange(len(values)), len(chosen))
        rows = all_rows(series, np.tile(chosen, len(values)), self.horizon)
        rows = rows.take(rows.at <= self.end(part))
        return rows.take(np.isfinite(values[rows.series, rows.at]))


def split_origins(
    steps: int, horizon: int, season: int, validation: str | int, test: str | int
) -> OriginSplit:
    """The split of T steps; `auto` sizes as the contract says.

    Raises:
        DataMistake: the history is too short.
    """
    of_test = test if isinstance(test, int) else _usual_steps(steps, horizon)
    of_validation = validation if isinstance(validation, int) else of_test
    problems = [
        Problem(
            f"the {part} part is shorter than the horizon",
            path=f"data.{part}_steps",
            found=f"{size} steps",
            expected=f"at least {horizon}",
            fix=f"write {part}_steps: {horizon}",
        )
        for part, size in (("validation", of_validation), ("test", of_test))
        if size < horizon
    ]
    least = of_test + of_validation + season + horizon
    if not problems and steps < least:
        problems.append(
            Problem(
                "the history is too short",
                path="data.horizon",
                found=f"{steps} time steps",
                expected=f"at least {least}: a season of {season} and a horizon of {horizon} to "
                f"learn from, {of_validation} to validate, {of_test} to test",
                fix="give a longer history, or lower horizon, season, validation_steps or "
                "test_steps",
            )
        )
    if problems:
        raise DataMistake(problems)
    validated = steps - 1 - of_test
    return OriginSplit(steps, validated - of_validation, validated, horizon, season)


def _usual_steps(steps: int, horizon: int) -> int:
    return max(round(_TEST_SHARE * steps), min(2 * horizon, steps // _MOST_SHARE), horizon)


def resampling_units(rows: ForecastRows, horizon: int) -> tuple[Integers, str]:
    """The unit [N] of each forecast that an interval resamples, and what it is.

    Forecasts of near origins share most of their truth, and series move together: a unit is a block
    of origins as long as the horizon, with all series. Of too few blocks the series are resampled,
    which says nothing of other times.
    """
    first = int(rows.origins.min()) if len(rows) else 0
    blocks = (rows.origins - first) // horizon
    count = len(np.unique(blocks))
    series = len(np.unique(rows.series))
    if count < FEWEST_BLOCKS <= series:
        return rows.series, f"{series} series are resampled, since there are {count} blocks"
    said = f"{count} blocks of {horizon} origins are resampled"
    if count < FEWEST_BLOCKS:
        wanted = (FEWEST_BLOCKS + 1) * horizon - 1
        said += f", too few for an interval: data.test_steps: {wanted} gives enough"
    return blocks, said


def usable_rows(panel: SeriesPanel, rows: ForecastRows, lookback: Lookback) -> ForecastRows:
    """The rows that have a level: whose series is known so far."""
    levels = lookback.levels(panel, rows)
    return rows.take(np.isfinite(levels.offset) & np.isfinite(levels.scale))


def forecast_frame(
    panel: SeriesPanel, rows: ForecastRows, lookback: Lookback, columns: SeriesColumns
) -> pl.DataFrame:
    """A row for each forecast, whose series has a level: time, series, origin, target (NaN where it
    is not known), features, levels and naive forecasts."""
    levels = lookback.levels(panel, rows)
    names = pl.Series(panel.names, dtype=pl.String)
    found = [panel.times(rows.at).alias(columns.time.name)]
    if columns.series:
        found.append(names.gather(rows.series).alias(columns.series))
    found += [
        panel.times(rows.origins).alias(ORIGIN),
        pl.Series(columns.target.name, values_at(panel.values, rows.series, rows.at)),
        *lookback.features(panel, rows),
        pl.Series(_OFFSET, levels.offset),
        pl.Series(_SCALE, levels.scale),
        pl.Series(_ERROR_SCALE, levels.error_scale),
    ]
    found += [pl.Series(name, one) for name, one in _naive(panel, rows, lookback).items()]
    return pl.DataFrame(found)


def time_and_series(frame: pl.DataFrame) -> tuple[str, str]:
    """The columns of a frame of forecasts that hold time and series; the second is empty where all
    rows are one."""
    time, series = frame.columns[:2]
    return time, "" if series == ORIGIN else series


def feature_types(frame: pl.DataFrame, columns: SeriesColumns) -> tuple[ColumnType, ...]:
    """The feature columns of a frame of forecasts; without those that never differ in it."""
    never = {columns.time.name, ORIGIN, columns.target.name}
    found = []
    for series in frame.get_columns():
        if series.name in never or series.name.startswith(_HIDDEN) or series.n_unique() < 2:
            continue
        kind: Kind = "numeric" if series.dtype.is_numeric() else "categorical"
        example = str(series[0])[:60]
        missing, distinct = series.null_count(), series.n_unique()
        found.append(ColumnType(series.name, kind, _REASON, missing, distinct, example))
    return tuple(found)


def levels_of(frame: pl.DataFrame) -> Levels:
    """The levels of a frame of forecasts."""
    offset, scale, error_scale = (
        frame[name].to_numpy() for name in (_OFFSET, _SCALE, _ERROR_SCALE)
    )
    steps = frame[STEP].cast(pl.Int64).to_numpy()
    return Levels(offset, scale, error_scale, steps=steps)


def _naive(panel: SeriesPanel, rows: ForecastRows, lookback: Lookback) -> Mapping[str, Floats]:
    """The last value; that of the same place in the last season before the origin; and the last
    value with the mean change since the first (Hyndman and Athanasopoulos 2021, section 5.2)."""
    at = rows.series, rows.origins
    known = np.isfinite(panel.values)
    newest = last_known(panel.values)
    last = newest[at]
    steps = np.arange(panel.steps)
    begun = np.where(known.any(axis=1), known.argmax(axis=1), 0)
    ended = np.maximum.accumulate(np.where(known, steps, 0), axis=1)
    first = panel.values[np.arange(len(begun)), begun]
    passed = np.maximum(1, ended[at] - begun[rows.series])
    drift = (last - first[rows.series]) / passed
    back = -(-rows.steps // lookback.season) * lookback.season
    seasonal = values_at(panel.values, rows.series, rows.at - back)
    found = {PERSISTENT: last, DRIFTING: last + drift * rows.steps}
    if lookback.season > 1:
        found[SEASONAL_VALUE] = np.where(np.isfinite(seasonal), seasonal, last)
    return found
