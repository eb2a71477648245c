"""Naive and seasonal naive forecasts, the baselines of a time split (Hyndman and Athanasopoulos
2021, Forecasting: Principles and Practice, section 5.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.data import Data
from trainwright.contract.sections.data.split import TimeSplit
from trainwright.contract.sections.data.table_data import History, TableData
from trainwright.data.base.inputs import Floats, Integers, Part
from trainwright.data.base.levels import quantiles_by_step
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.base.row_storage import IN_MEMORY
from trainwright.data.split.groups import combined_label_codes
from trainwright.data.split.time_split import times
from trainwright.data.types import Prepared

if TYPE_CHECKING:
    from trainwright.contract.sections.data.series import SeriesData

PERSISTENCE, SEASONAL, DRIFT = "persistence", "seasonal_naive", "drift"

_DAY = 86_400_000_000
_PERIODS = (_DAY, 7 * _DAY, 365 * _DAY)
"""In microseconds."""

_STEPS = (7, 12, 24, 48, 52, 96, 168, 288, 336, 365)
"""Season candidates for numeric timestamps, in steps."""

_FEWEST_SEASONS = 2
_FEWEST_RESIDUALS = 20
"""Residuals of a step from which a series has quantiles of its own."""
LEAST_COUNT = 0.5
"""The least rate that is forecast without a model: the deviance of any count from 0 is infinite."""


def forecast_naively(prepared: Prepared, data: Data) -> dict[str, Floats]:
    """Scores of both for the test rows of a time split, [N, C] or [N, 1]; `seasonal_naive` only if
    the training rows show a season. Empty for other splits, and for a ranking: what was relevant to
    an earlier query says nothing of the rows of this one.

    A target is known at the next timestamp, or `gap` later. With `history` each group is a series,
    and `horizon` is the lag in timestamps of the newest known target. Rows of one series and
    timestamp are averaged. The probability of a repeated class is its accuracy on the training
    rows.
    """
    forecast = FORECASTS.get(data.kind)
    return forecast(prepared, data) if forecast else {}


def _forecast_table(prepared: Prepared, data: TableData) -> dict[str, Floats]:
    if not isinstance(data.split, TimeSplit) or data.query:
        return {}
    series = _series(prepared, data.split, data.features.history)
    test, train = series.rows["test"], series.rows["train"]
    found = {PERSISTENCE: series.predict(series.known(test), series.known(train), train)}
    if period := _season(series, train):
        ago = series.at(test, period), series.at(train, period)
        found[SEASONAL] = series.predict(*ago, train)
    return found


@final
@dataclass(frozen=True, slots=True)
class _Series:
    """All rows in time order, by series.

    `moments` int64 or float64 [N], `groups` int64 [N] and `values` [N, K] of each row. `line` are
    the distinct timestamps, ascending; `keys` [P] the distinct pairs of series and timestamp, as
    series x (timestamps + 1) + timestamp, and `means` [P, K] the mean target of each. `is_time`:
    timestamps are microseconds, not numbers of the data.
    """

    rows: Mapping[str, Integers]
    moments: Floats | Integers
    groups: Integers
    values: Floats
    line: Floats | Integers
    keys: Integers
    means: Floats
    is_time: bool
    gap: float
    horizon: int
    is_count: bool
    quantiles: tuple[float, ...]

    def known(self, rows: Integers) -> Floats:
        """Newest known target of the series at each row, NaN for none."""
        moments = self.moments[rows]
        before = np.searchsorted(self.line, moments, side="left")
        behind = np.searchsorted(self.line, moments - self.gap, side="right")
        return self._newest(rows, np.minimum(before, behind), self.horizon)

    def at(self, rows: Integers, period: float) -> Floats:
        """Target one period before each row, or the newest one before that, NaN for none."""
        ago = np.searchsorted(self.line, self.moments[rows] - period, side="right")
        return self._newest(rows, ago, 1)

    def _newest(self, rows: Integers, below: Integers, back: int) -> Floats:
        """Mean of the `back`-th newest pair of the row's series before timestamp number `below`."""
        first = self.groups[rows] * (len(self.line) + 1)
        at = np.searchsorted(self.keys, first + below) - back
        there = at >= np.searchsorted(self.keys, first)
        return np.where(there[:, None], self.means[np.maximum(at, 0)], np.nan)

    def predict(self, given: Floats, fitted: Floats, train: Integers) -> Floats:
        """Values unchanged; classes with their accuracy on the training rows (`fitted`); rows
        without a past get the mean or the class shares. Quantiles are those of the residuals on the
        training rows. The least forecast of a count is 1/2: the
        deviance of any count from 0 is infinite."""
        usual = self.values[train].mean(axis=0)
        scores = np.where(np.isnan(given), usual, given)
        if self.quantiles:
            residuals = (self.values[train] - fitted)[~np.isnan(fitted)]
            shifts = np.quantile(residuals, self.quantiles) if len(residuals) else 0.0
            return np.asarray(scores + np.broadcast_to(shifts, len(self.quantiles)))
        if self.is_count:
            return np.maximum(scores, LEAST_COUNT)
        if scores.shape[1] == 1:
            return scores
        past = ~np.isnan(fitted).any(axis=1)
        right = fitted[past].argmax(axis=1) == self.values[train][past].argmax(axis=1)
        sure = float(right.mean()) if len(right) else 0.0
        return np.asarray(sure * scores + (1 - sure) * usual)


def _series(prepared: Prepared, split: TimeSplit, history: str | History) -> _Series:
    parts = (prepared.train, prepared.validation, prepared.test)
    frames = [part.frame for part in parts]
    ends = np.cumsum([0, *(len(part) for part in parts)])
    every = np.arange(ends[-1])
    moments = np.concatenate([_physical(frame, split.moment) for frame in frames])
    groups = np.zeros(len(moments), np.int64)
    is_time = not frames[0][split.moment].dtype.is_numeric()
    horizon = 1
    if not isinstance(history, str):
        horizon = history.horizon
        if history.group:
            # As in the features, rows that name no group have one past.
            names = (to_labels(frame[history.group]).fill_null("") for frame in frames)
            groups = np.concatenate(combined_label_codes(names, IN_MEMORY))
    target = np.concatenate([part.target for part in parts])
    values = target[:, None].astype(np.float64)
    if prepared.target.classes:
        values = (target[:, None] == np.arange(prepared.target.outputs)).astype(np.float64)
    line, number = np.unique(moments, return_inverse=True)
    keys, pair = np.unique(groups * (len(line) + 1) + number, return_inverse=True)
    counts = np.bincount(pair)[:, None]
    sums = np.stack([np.bincount(pair, column) for column in values.T], axis=1)
    return _Series(
        rows={
            part.name: every[low:high]
            for part, low, high in zip(parts, ends, ends[1:], strict=False)
        },
        moments=moments,
        groups=groups,
        values=values,
        line=line,
        keys=keys,
        means=sums / counts,
        is_time=is_time,
        gap=split.gap * _DAY if is_time else split.gap,
        horizon=horizon,
        is_count=prepared.target.is_count,
        quantiles=prepared.target.quantiles,
    )


def _physical(frame: pl.DataFrame, column: str) -> Floats | Integers:
    return times(frame, column).to_physical().to_numpy()


def _season(series: _Series, train: Integers) -> float:
    """Period with the most accurate forecasts on the training targets, or 0: it exceeds the known
    lag, and the training rows span at least two periods."""
    line = np.unique(series.moments[train])
    if len(line) < _FEWEST_SEASONS + 1:
        return 0.0
    step = float(np.median(np.diff(line)))
    periods: Sequence[float] = _PERIODS
    if not series.is_time:
        periods = [step * each for each in _STEPS]
    newest = max(series.gap, step * series.horizon)
    span = float(line[-1] - line[0])
    errors: dict[float, float] = {}
    for period in periods:
        if period > newest and period * _FEWEST_SEASONS <= span:
            apart = np.abs(series.at(train, period) - series.values[train])
            if not np.isnan(apart).all():
                errors[float(period)] = float(np.nanmean(apart))
    return min(errors, key=lambda period: errors[period]) if errors else 0.0


def _forecast_series(prepared: Prepared, _: SeriesData) -> dict[str, Floats]:
    """What stands beside the test rows, `seasonal_naive` only with a season; of quantiles, each
    shifted by those of its own residuals."""
    # Imported here: few runs have series.
    from trainwright.data.series.origins import DRIFTING, PERSISTENT, SEASONAL_VALUE

    columns = {PERSISTENCE: PERSISTENT, DRIFT: DRIFTING, SEASONAL: SEASONAL_VALUE}
    frame = prepared.test.frame
    there = {name: column for name, column in columns.items() if column in frame.columns}
    if prepared.target.quantiles:
        return {name: _series_quantiles(prepared, column) for name, column in there.items()}
    return {name: frame[column].to_numpy()[:, None] for name, column in there.items()}


def _series_quantiles(prepared: Prepared, column: str) -> Floats:
    """Quantiles [N, K] of naive forecasts of the test rows: those of the residuals on the training
    rows, widened to hold on the validation rows, as those of a model are."""
    # Imported here: few runs have series.
    from trainwright.predictor.conformal import conformal_shifts_by_step, fewest_rows

    quantiles, held_out, test = prepared.target.quantiles, prepared.validation, prepared.test
    scores = _step_quantiles(prepared, held_out, column)
    known = np.isfinite(scores).all(axis=1)
    found = _step_quantiles(prepared, test, column)
    if known.sum() < fewest_rows(quantiles):
        return found
    unit = _unit_of(held_out)[known]
    steps = held_out.inputs.levels.steps[known], test.inputs.levels.steps
    truth = held_out.target[known] / unit
    shifts = conformal_shifts_by_step(scores[known] / unit[:, None], truth, quantiles, steps[0])
    by_step = np.array(shifts)[np.minimum(steps[1], len(shifts)) - 1]
    return np.asarray(found + by_step * _unit_of(test)[:, None])


def _step_quantiles(prepared: Prepared, part: Part, column: str) -> Floats:
    """Naive forecasts of a part, shifted by the quantiles of the residuals at the step of each row:
    those on the training rows of its series, and where these are few of all series in units of the
    error that counts as 1 (Hyndman and Athanasopoulos 2021, section 5.5, with the residuals of each
    horizon)."""
    # Imported here: few runs have series.
    from trainwright.data.series.origins import time_and_series

    train = prepared.train
    residuals = train.target - train.frame[column].to_numpy()
    units = _unit_of(train), _unit_of(part)
    steps = train.inputs.levels.steps, part.inputs.levels.steps
    known = np.isfinite(residuals)
    quantiles, horizon = prepared.target.quantiles, int(steps[1].max())
    scaled = quantiles_by_step((residuals / units[0])[known], steps[0][known], quantiles, horizon)
    found = np.asarray(scaled[steps[1] - 1] * units[1][:, None])
    _, series = time_and_series(part.frame)
    names = [
        one.frame[series].to_numpy() if series else np.zeros(len(one), np.int64)
        for one in (train, part)
    ]
    for name in np.unique(names[1]):
        own, to = known & (names[0] == name), names[1] == name
        if own.sum() >= _FEWEST_RESIDUALS * horizon:
            each = quantiles_by_step(residuals[own], steps[0][own], quantiles, horizon)
            found[to] = each[steps[1][to] - 1]
    return np.asarray(part.frame[column].to_numpy()[:, None] + found)


def _unit_of(part: Part) -> Floats:
    """The error of each row [N] that counts as 1; 1 of a series that did not change."""
    scale = part.inputs.levels.error_scale
    return np.where(scale > 0, scale, 1.0)


FORECASTS: Mapping[str, Callable[[Prepared, Any], dict[str, Floats]]] = MappingProxyType(
    {"table": _forecast_table, "series": _forecast_series}
)
"""Of the kinds of data that can be divided by time."""
