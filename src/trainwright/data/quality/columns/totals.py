"""A row of totals, as a spreadsheet ends with, among rows that were observed."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from trainwright.data.base.messages import quoted
from trainwright.data.base.table import Floats
from trainwright.data.quality.examined_data import ExaminedData
from trainwright.data.quality.finding import Finding

_FEWEST_ROWS, _FEWEST_COLUMNS = 20, 2
_DISTINCT = 20
_ROUNDING = 1e-6


def totals_row(data: ExaminedData) -> list[Finding]:
    """A row whose numbers are the sums of all rows above it, or the last row if they are their
    means, in two numeric columns or more that have 20 different values. Where several rows hold
    such sums they are no totals: numbers that double from row to row do."""
    if len(data) <= _FEWEST_ROWS:
        return []
    order = np.argsort(data.rows, kind="stable")
    looks = [look for look in data.looks if look.kind == "numeric"]
    columns = {look.name: look.numbers[order] for look in looks}
    columns = {name: values for name, values in columns.items() if _varies(values)}
    if len(columns) < _FEWEST_COLUMNS:
        return []
    sums = np.stack([_is_sum(values) for values in columns.values()], axis=1)
    rows = np.flatnonzero(sums.sum(axis=1) >= _FEWEST_COLUMNS)
    if len(rows) == 1:
        return [_finding(data, int(order[rows[0]]), "sums", _chosen(columns, sums[rows[0]]))]
    means = np.array([_is_mean(values) for values in columns.values()])
    if means.sum() >= _FEWEST_COLUMNS:
        return [_finding(data, int(order[-1]), "means", _chosen(columns, means))]
    return []


def _finding(
    data: ExaminedData, row: int, what: Literal["sums", "means"], names: tuple[str, ...]
) -> Finding:
    places = data.places([row])
    return Finding(
        "outliers",
        "warning",
        f"row {places[0]:,} holds the {what} of the rows above it in {quoted(names, 3)}: a row of "
        "totals was not observed",
        1,
        places,
        names,
        "take the row out of the file: it is trained on, or tested, like any other",
    )


def _chosen(columns: dict[str, Floats], chosen: npt.NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(name for name, one in zip(columns, chosen, strict=True) if one)


def _varies(values: Floats) -> bool:
    return len(np.unique(values[np.isfinite(values)])) >= _DISTINCT


def _is_sum(values: Floats) -> npt.NDArray[np.bool_]:
    """Which values [N] are the sum of all above them, and larger than each of these."""
    known = np.nan_to_num(values)
    above = np.cumsum(known) - known
    largest = np.concatenate([[0.0], np.maximum.accumulate(np.abs(known))[:-1]])
    near = np.abs(values - above) <= _ROUNDING * np.abs(above)
    found: npt.NDArray[np.bool_] = near & (np.abs(values) > largest)
    found[:_FEWEST_ROWS] = False
    return found


def _is_mean(values: Floats) -> bool:
    """Whether the last value is the mean of all above it, and equal to none of these."""
    above = values[:-1][np.isfinite(values[:-1])]
    mean = float(above.mean())
    near = abs(float(values[-1]) - mean) <= _ROUNDING * abs(mean)
    return near and not bool((above == values[-1]).any())
