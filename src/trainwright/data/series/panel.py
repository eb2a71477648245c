"""Series on a common line of time steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from trainwright.data.base.table import Floats, Integers
from trainwright.data.series.time_steps import TimeSpacing

NO_ROW = -1


@final
@dataclass(frozen=True, slots=True)
class SeriesPanel:
    """S series over T steps.

    `values` [S, T] is the target, NaN where it is unknown; `rows` int64 [S, T] the row of `frame`
    of a series at a step, -1 for none. `names` are those of the series; step 0 is the
    time `first` of the spacing. `scales` [S] is the mean absolute error of the seasonal naive
    method in the training part, 0 where the series does not change.
    """

    frame: pl.DataFrame
    names: tuple[str, ...]
    values: Floats
    rows: Integers
    spacing: TimeSpacing
    first: int
    scales: Floats

    @property
    def steps(self) -> int:
        """T."""
        return int(self.values.shape[1])

    def times(self, steps: Integers) -> pl.Series:
        """The times of steps [N], which may lie behind the last."""
        return self.spacing.times(self.first + steps)

    def cells(self, column: str, series: Integers, steps: Integers) -> pl.Series:
        """Cells [N] of a column for series and steps; missing where there is no row."""
        there = (steps >= 0) & (steps < self.steps)
        row = np.where(there, self.rows[series, np.clip(steps, 0, self.steps - 1)], NO_ROW)
        places = pl.Series(row).cast(pl.Int64)
        return self.frame[column].gather(places.set(places == NO_ROW, None).cast(pl.UInt32))

    def with_scales(self, scales: Floats) -> SeriesPanel:
        """The same with other `scales`."""
        return SeriesPanel(
            self.frame, self.names, self.values, self.rows, self.spacing, self.first, scales
        )


def build_panel(
    frame: pl.DataFrame, target: Floats, series: pl.Series, numbers: Integers, spacing: TimeSpacing
) -> SeriesPanel:
    """The rows of a frame on their steps: `target` [N], `series` [N] the name of each row's, and
    `numbers` [N] that of its time. No two rows are of one series and time."""
    names = sorted(series.unique().to_list())
    codes = series.replace_strict(names, list(range(len(names))), return_dtype=pl.Int64).to_numpy()
    first = int(numbers.min())
    shape = (len(names), int(numbers.max()) - first + 1)
    values, rows = np.full(shape, np.nan), np.full(shape, NO_ROW, dtype=np.int64)
    values[codes, numbers - first] = target
    rows[codes, numbers - first] = np.arange(len(target))
    return SeriesPanel(frame, tuple(names), values, rows, spacing, first, np.zeros(len(names)))


def series_scales(values: Floats, season: int) -> Floats:
    """Mean absolute error [S] of the seasonal naive method on values [S, T], one season ahead
    (Hyndman and Koehler 2006); 0 for series that do not change or are shorter."""
    if values.shape[1] <= season:
        return np.zeros(len(values))
    apart = np.abs(values[:, season:] - values[:, :-season])
    counts = np.isfinite(apart).sum(axis=1)
    return np.asarray(np.nansum(apart, axis=1) / np.maximum(1, counts))


def missing_steps(panel: SeriesPanel) -> list[tuple[int, int]]:
    """Each (series, step) without a row between the first and the last row of its series."""
    there = panel.rows != NO_ROW
    begun = np.maximum.accumulate(there, axis=1)
    goes_on = np.maximum.accumulate(there[:, ::-1], axis=1)[:, ::-1]
    return [(int(one), int(step)) for one, step in np.argwhere(begun & goes_on & ~there)]


def last_steps(values: Floats) -> Integers:
    """The last step [S] of each series with a known value; -1 without one."""
    known = np.isfinite(values)
    last = values.shape[1] - 1 - known[:, ::-1].argmax(axis=1)
    return np.where(known.any(axis=1), last, NO_ROW)
