"""The numeric columns of an encoding: of the table, of dates and of the past."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

import numpy as np
import polars as pl

from trainwright.data.base.table import Floats, Integers
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.columns.winsorize import Limit, limited
from trainwright.data.encoders.date_features import DatePart
from trainwright.data.encoders.lag_features import LagFeatures
from trainwright.data.encoders.scaling import NumberRows

NumberColumn = Callable[[pl.DataFrame], pl.Series]
"""What takes one numeric column from rows."""


def names_of_kind(columns: tuple[ColumnType, ...], kind: str) -> list[str]:
    """The columns of a kind."""
    return [column.name for column in columns if column.kind == kind]


def number_columns(
    columns: tuple[ColumnType, ...], dates: tuple[DatePart, ...], history: LagFeatures
) -> list[NumberColumn]:
    """Numeric columns, date parts and the past."""
    names = [*names_of_kind(columns, "numeric"), *history.names]
    found: list[NumberColumn] = [itemgetter(name) for name in names]
    own = len(found) - len(history.names)
    return [*found[:own], *(date.values for date in dates), *found[own:]]


def number_matrix(frame: pl.DataFrame, columns: Sequence[NumberColumn]) -> Floats:
    """Float64 [N, F], NaN for missing."""
    if not columns:
        return np.empty((frame.height, 0), dtype=np.float64)
    series = [column(frame).cast(pl.Float64).fill_null(np.nan) for column in columns]
    return np.stack([one.to_numpy() for one in series], axis=1)


def number_rows(
    frame: pl.DataFrame,
    limits: tuple[Limit, ...],
    columns: Sequence[NumberColumn],
    crossed: Sequence[Floats],
) -> NumberRows:
    """The numeric columns of the training rows, the mean targets of other folds behind them."""
    means = np.concatenate([np.empty((frame.height, 0)), *crossed], axis=1)

    def between(start: int, stop: int, chosen: Integers) -> Floats:
        rows = limited(frame.slice(start, stop - start), limits)
        own = number_matrix(rows, [columns[at] for at in chosen if at < len(columns)])
        beside = means[start:stop, chosen[chosen >= len(columns)] - len(columns)]
        return np.concatenate([own, beside], axis=1)

    return NumberRows(frame.height, len(columns) + means.shape[1], between)
