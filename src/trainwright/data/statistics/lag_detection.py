"""Detection of lags of the target among the columns."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from trainwright.data.base.inputs import Floats

_MOST = 48
_SAME = 0.99
_CHANGES = 0.5
_ROUNDING = 1e-6
_FEWEST_ROWS, _MOST_ROWS = 50, 50_000


def lags(
    frame: pl.DataFrame, names: Iterable[str], target: str, times: str, *, ahead: bool = False
) -> dict[str, int]:
    """Lag in rows of each of these columns that is a lag of the target, for typed rows ordered by
    the column `times`; with `ahead` the rows by which a column is the target of a later row.

    Requires unique timestamps, a numeric target that changes from row to row, equality with the
    target up to 48 rows earlier in 99 % of the rows, and difference from the row's own target in
    half of them. A lag in another unit is not detected. Only the first 50,000 rows are checked.
    """
    moments = frame[times]
    if frame.height < _FEWEST_ROWS or moments.null_count() or moments.n_unique() < frame.height:
        return {}
    if not frame[target].dtype.is_numeric():
        return {}
    names = list(names)
    first = moments.arg_sort().head(_MOST_ROWS)
    ordered = frame.select({target, *names})[first]
    if ahead:
        ordered = ordered.reverse()
    wanted = _numbers(ordered[target])
    if float((wanted[1:] != wanted[:-1]).mean()) < _CHANGES:
        return {}
    near = _ROUNDING * float(np.nanstd(wanted))
    found = {}
    for name in names:
        values = _numbers(ordered[name])
        if _alike(values, wanted, near) > _CHANGES:
            continue
        for steps in range(1, min(_MOST, frame.height - _FEWEST_ROWS) + 1):
            if _alike(values[steps:], wanted[:-steps], near) >= _SAME:
                found[name] = steps
                break
    return found


def _numbers(series: pl.Series) -> Floats:
    return series.cast(pl.Float64).fill_null(np.nan).to_numpy()


def _alike(one: Floats, other: Floats, near: float) -> float:
    """Share of rows in which two columns agree; missing values differ."""
    return float((np.abs(one - other) <= near).mean())
