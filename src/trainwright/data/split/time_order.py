"""Temporal order of rows: timestamp ranks, distances and blocks."""

from __future__ import annotations

import numpy as np
import polars as pl

from trainwright.contract.key_paths import as_key
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.formatting import many
from trainwright.data.base.storage.external_sort import dense_ranks, sorted_positions
from trainwright.data.base.storage.row_storage import IN_MEMORY, RowStorage, bounds, slices_of
from trainwright.data.base.table import Floats, Integers

_MICROSECONDS_A_DAY = 86_400_000_000


def moments(frame: pl.DataFrame, column: str, space: RowStorage = IN_MEMORY) -> Integers:
    """Dense rank of each row's timestamp, from 1, int64 [N] in `space`.

    Raises:
        DataMistake: the column is not a time or a number, or has missing values.
    """
    series = times(frame, column)
    values = space.array((len(series),), series.head(0).to_physical().to_numpy().dtype)
    for (start, stop), some in zip(bounds(len(series)), slices_of(series), strict=True):
        values[start:stop] = some.to_physical().to_numpy()
    return dense_ranks(values, space)


def distances(frame: pl.DataFrame, column: str, space: RowStorage = IN_MEMORY) -> Floats:
    """Time coordinate of each row, float64 [N] in `space`: days for dates, otherwise the column's
    numbers.

    Raises:
        As `moments`.
    """
    series = times(frame, column)
    line: Floats = space.array((len(series),), np.float64)
    numbers = series.dtype.is_numeric()
    first = 0 if numbers else series.to_physical().min()
    for (start, stop), some in zip(bounds(len(series)), slices_of(series), strict=True):
        if numbers:
            line[start:stop] = some.cast(pl.Float64).to_numpy()
        else:
            line[start:stop] = (some.cast(pl.Int64) - first).to_numpy() / _MICROSECONDS_A_DAY
    return line


def time_units(ranks: Integers, space: RowStorage = IN_MEMORY) -> Integers:
    """Bootstrap blocks of about N ** (1/3) consecutive rows in time order, int64 [N] in `space`.

    The block length of the moving-block bootstrap grows with the cube root of the rows
    (Künsch 1989, Annals of Statistics 17, section 3).
    """
    order = sorted_positions(ranks, space)
    length = max(1, round(len(ranks) ** (1 / 3)))
    units: Integers = space.array((len(ranks),), np.int64)
    for start, stop in bounds(len(ranks)):
        units[order[start:stop]] = np.arange(start, stop) // length
    return units


def time_blocks(ranks: Integers, count: int) -> Integers:
    """Block of each row, int64 [N], 0 the oldest: `count` blocks of about equal size, cut between
    timestamps. With fewer timestamps than blocks the newest stay empty."""
    ends = np.cumsum(np.bincount(ranks)[1:])
    cuts = [0]
    for number in range(1, count):
        low = cuts[-1] + 1
        high = max(low, len(ends) - (count - number))
        candidates = ends[low - 1 : high]
        wanted = len(ranks) * number / count
        if not len(candidates):
            break
        cuts.append(low + int(np.argmin(np.abs(candidates - wanted))))
    return np.searchsorted(np.array(cuts[1:]), ranks, side="left").astype(np.int64)


def times(frame: pl.DataFrame, column: str) -> pl.Series:
    """Timestamps of the rows, none missing.

    Raises:
        As `moments`.
    """
    series = frame[column]
    if not (series.dtype.is_numeric() or series.dtype == pl.Datetime("us")):
        raise DataMistake(
            Problem(
                f"{column!r} is not a time",
                path="data.split.column",
                found=f"values such as {series.drop_nulls().head(1).to_list()}",
                expected="dates written alike, or numbers",
                fix=f"set data.columns.{as_key(column)}.format",
            )
        )
    if series.null_count():
        rows = series.is_null().arg_true()
        raise DataMistake(
            Problem(
                f"{many(len(rows), 'row has', 'rows have')} no time",
                path="data.split.column",
                found=f"{column!r} is missing, first in row {rows[0] + 1:,} of those with a target",
                expected="a time in every row",
                fix="repair these rows, or choose another split",
            )
        )
    return series
