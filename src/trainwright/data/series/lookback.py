"""Features of forecasts: what is known of a series at an origin, and of the forecast time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.series import Relation, RelativeTo
from trainwright.core.files import Json
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.levels import Levels
from trainwright.data.series.panel import SeriesPanel, TimeSpacing

STEP, ORIGIN = "step", "origin"
"""Columns of the rows beside those of the data: steps from the origin, and its time."""

_SEASONS = 2
_LISTS = ("lags", "windows", "calendar", "known", "others")
_MOST_SEEN = 2**22
_DAYS_OF_WEEK, _MONTHS = 7, 12
_DAY, _HOUR = 86_400_000_000, 3_600_000_000


@final
@dataclass(frozen=True, slots=True)
class ForecastRows:
    """N forecasts: `series` int64 [N] and `origins` int64 [N] are numbers of a panel, `steps`
    int64 [N] count from 1."""

    series: Integers
    origins: Integers
    steps: Integers

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def at(self) -> Integers:
        """The step of the panel [N] that is forecast."""
        return self.origins + self.steps

    def take(self, rows: Integers | np.ndarray) -> ForecastRows:
        """The given rows."""
        return ForecastRows(self.series[rows], self.origins[rows], self.steps[rows])


def all_rows(series: Integers, origins: Integers, horizon: int) -> ForecastRows:
    """A row for each step of the horizon of each origin [K] of a series [K]."""
    steps = np.tile(np.arange(1, horizon + 1), len(origins))
    return ForecastRows(np.repeat(series, horizon), np.repeat(origins, horizon), steps)


@final
@dataclass(frozen=True, slots=True)
class Lookback:
    """Which features a forecast has.

    `lags` are steps back from the origin, 1 the value at it; `windows` the lengths of rolling means
    and deviations that end at the origin. `known` are columns at the forecast time, `others`
    columns at the origin. Past values are measured as the target is: against the level that
    `relative_to` and `relation` name.
    """

    target: str
    season: int
    lags: tuple[int, ...]
    windows: tuple[int, ...]
    relative_to: RelativeTo
    relation: Relation
    calendar: tuple[str, ...]
    known: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def fewest(self) -> int:
        """Steps up to an origin that its level takes."""
        return self.season if self.relative_to in ("season_mean", "season_value") else 1

    def levels(self, panel: SeriesPanel, rows: ForecastRows) -> Levels:
        """What the target of each row is measured against; not finite where the series is not known
        so far."""
        if self.relative_to == "season_value":
            back = -(-rows.steps // self.season) * self.season
            reference = values_at(panel.values, rows.series, rows.at - back)
            return self._measured(panel, rows, reference)
        return self.origin_levels(panel, rows)

    def origin_levels(self, panel: SeriesPanel, rows: ForecastRows) -> Levels:
        """What past values of each row are measured against: the same for all steps of an
        origin."""
        if self.relative_to == "nothing":
            return Levels(
                np.zeros(len(rows)), np.ones(len(rows)), np.asarray(panel.scales[rows.series])
            )
        if self.relative_to == "last_value":
            reference = last_known(panel.values)
        else:
            reference = rolling(panel.values, self.season)[0]
        return self._measured(panel, rows, reference[rows.series, rows.origins])

    def _measured(self, panel: SeriesPanel, rows: ForecastRows, reference: Floats) -> Levels:
        unit = panel.scales[rows.series]
        scale = reference if self.relation == "ratio" else np.where(unit > 0, unit, 1.0)
        # A ratio to nothing is none: such a row has no level.
        return Levels(reference, np.where(scale == 0, np.nan, scale), unit)

    def past(self, panel: SeriesPanel, rows: ForecastRows) -> Iterator[pl.Series]:
        """Features of the target up to the origin, measured against its level there."""
        levels = self.origin_levels(panel, rows)

        def told(name: str, values: Floats) -> pl.Series:
            return pl.Series(f"{self.target}_{name}", levels.learned(values))

        for lag in self.lags:
            yield told(f"lag_{lag}", values_at(panel.values, rows.series, rows.origins - lag + 1))
        if self.season > 1:
            back = -(-rows.steps // self.season) * self.season
            for number in range(_SEASONS):
                at = rows.at - back - number * self.season
                yield told(f"season_{number + 1}", values_at(panel.values, rows.series, at))
            yield pl.Series(f"{self.target}_change_{self.season}", self._change(panel, rows))
        for window in self.windows:
            mean, deviation = rolling(panel.values, window)
            before = values_at(mean, rows.series, rows.origins - window)
            mean_now = mean[rows.series, rows.origins]
            yield told(f"mean_{window}", mean_now)
            spread = deviation[rows.series, rows.origins]
            yield pl.Series(f"{self.target}_std_{window}", spread / np.abs(levels.scale))
            yield pl.Series(f"{self.target}_trend_{window}", (mean_now - before) / levels.scale)

    def _change(self, panel: SeriesPanel, rows: ForecastRows) -> Floats:
        """The value at the origin against that of a season before."""
        before = values_at(panel.values, rows.series, rows.origins - self.season)
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._measured(panel, rows, before).learned(
                values_at(panel.values, rows.series, rows.origins)
            )

    def features(self, panel: SeriesPanel, rows: ForecastRows) -> list[pl.Series]:
        """All feature columns but that of the series."""
        found = [pl.Series(STEP, rows.steps, dtype=pl.Float64), *self.past(panel, rows)]
        clock = panel.spacing.read_clock(panel.times(rows.at))
        found += [pl.Series(*part) for part in calendar_values(self.calendar, clock).items()]
        found += [panel.cells(name, rows.series, rows.at) for name in self.known]
        found += [
            panel.cells(name, rows.series, rows.origins).alias(name_at_origin(name))
            for name in self.others
        ]
        return [one.fill_nan(None) if one.dtype == pl.Float64 else one for one in found]

    def to_json(self) -> Json:
        """The fields by name."""
        return asdict(self)

    @classmethod
    def from_json(cls, json: dict[str, Json]) -> Lookback:
        """Inverse of `to_json`."""
        lists = {name: tuple(json[name]) for name in _LISTS}
        return cls(**{**json, **lists})


def name_at_origin(column: str) -> str:
    """The feature of a column whose values are known as of the origin."""
    return f"{column}_at_origin"


def values_at(values: Floats, series: Integers, steps: Integers) -> Floats:
    """Values [N] of series at steps; NaN before the first step and behind the last."""
    there = (steps >= 0) & (steps < values.shape[1])
    return np.where(there, values[series, np.clip(steps, 0, values.shape[1] - 1)], np.nan)


def last_known(values: Floats) -> Floats:
    """The last known value up to each step, [S, T]; NaN before the first."""
    known = np.isfinite(values)
    at = np.maximum.accumulate(np.where(known, np.arange(values.shape[1]), -1), axis=1)
    found = np.take_along_axis(values, np.maximum(at, 0), axis=1)
    return np.where(at >= 0, found, np.nan)


def rolling(values: Floats, window: int) -> tuple[Floats, Floats]:
    """Mean and deviation [S, T] of the known values among the last `window` up to each step; NaN
    where fewer than half of them are known. A window sums its own values alone, so that none before
    it leaves a rounding error."""
    mean, deviation = np.full(values.shape, np.nan), np.full(values.shape, np.nan)
    block = max(1, _MOST_SEEN // window)
    for one, (of_mean, of_deviation) in zip(values, zip(mean, deviation, strict=True), strict=True):
        padded = np.concatenate([np.full(window - 1, np.nan), one])
        for start in range(0, len(one), block):
            stop = min(start + block, len(one))
            seen = np.lib.stride_tricks.sliding_window_view(padded, window)[start:stop]
            known = np.isfinite(seen)
            counts = known.sum(axis=1)
            divisor = np.maximum(1, counts)
            middle = np.where(known, seen, 0.0).sum(axis=1) / divisor
            squares = np.where(known, (seen - middle[:, None]) ** 2, 0.0).sum(axis=1) / divisor
            enough = counts >= math.ceil(window / 2)
            of_mean[start:stop] = np.where(enough, middle, np.nan)
            of_deviation[start:stop] = np.where(enough, np.sqrt(squares), np.nan)
    return mean, deviation


def calendar_of(spacing: TimeSpacing) -> tuple[str, ...]:
    """The parts of the calendar that differ between times of a spacing and come again."""
    if spacing.unit == "numbers":
        return ()
    if spacing.unit == "months":
        return ("month",) if spacing.size % _MONTHS else ()
    parts = ["month"]
    if spacing.unit == "business_days" or spacing.size % (_DAYS_OF_WEEK * _DAY):
        parts += ["day", "weekday"]
    if spacing.unit == "microseconds" and spacing.size % _DAY:
        parts.append("hour")
        if spacing.size % _HOUR:
            parts.append("minute")
    return tuple(parts)


def calendar_values(parts: tuple[str, ...], times: pl.Series) -> Mapping[str, pl.Series]:
    """Each part as a number, and the sine and cosine of its place in the period."""
    found: dict[str, pl.Series] = {}
    if not parts:
        return found
    dates = times.dt
    each = {
        "month": (dates.month, 1, 12),
        "day": (dates.day, 1, 31),
        "weekday": (dates.weekday, 1, 7),
        "hour": (dates.hour, 0, 24),
        "minute": (dates.minute, 0, 60),
    }
    for part in parts:
        read, first, period = each[part]
        number = read().cast(pl.Float64)
        angle = (number - first) * (2 * math.pi / period)
        found[f"time_{part}"] = number
        found[f"time_{part}_sin"], found[f"time_{part}_cos"] = angle.sin(), angle.cos()
    return found
