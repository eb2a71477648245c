"""Rows of forecasts as a frame: features, truth, and what values are measured against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl

from trainwright.data.base.levels import Levels
from trainwright.data.base.table import Floats
from trainwright.data.columns.column_kinds import ColumnType, Kind
from trainwright.data.series.lookback import (
    ORIGIN,
    STEP,
    ForecastRows,
    Lookback,
    last_known,
    values_at,
)
from trainwright.data.series.panel import SeriesPanel
from trainwright.data.series.series_columns import SeriesColumns

_HIDDEN: Final = "\uffff"
_OFFSET, _SCALE, _ERROR_SCALE = (f"{_HIDDEN}{name}" for name in ("offset", "scale", "error_scale"))
PERSISTENT, SEASONAL_VALUE, DRIFTING = (
    f"{_HIDDEN}{name}" for name in ("persistence", "seasonal_naive", "drift")
)
"""Columns of the forecasts that need no model."""


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


_REASON = "what is known of a series at the origin, or of the forecast time"


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
