"""Columns of numbers that say how much a row counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.messages import some
from trainwright.data.base.parse_cells import to_numbers
from trainwright.data.base.row_storage import (
    IN_MEMORY,
    RowStorage,
    bounds,
    chosen_positions,
    slices_of,
)
from trainwright.data.columns.target import Target, encoded

_PATH = "data.weight"
_NO_CODES: Integers = np.empty(0, np.int64)


def read_row_weights(
    train: pl.DataFrame,
    places: Integers,
    section: TableData,
    target: Target,
    space: RowStorage = IN_MEMORY,
) -> Floats:
    """Weights of the training rows [N], divided by their mean: penalties and least sums of a leaf
    then count rows, whatever unit the column has. `places` are their positions in the file.

    Raises:
        DataMistake: a row has no weight or a negative one, or only zeros are there, of classes also
            of one of them.
    """
    weights = read_each_weight(train, places, section, space)
    codes = encoded(target, target.cells(train), space) if target.classes else _NO_CODES
    _check_sums(weights, section.weight, target.classes, codes)
    weights /= weights.max()  # No sum overflows.
    weights /= weights.mean()
    return weights


def read_each_weight(
    rows: pl.DataFrame, places: Integers, section: TableData, space: RowStorage = IN_MEMORY
) -> Floats:
    """Weights of rows [N] that train, from the column that the contract names.

    Raises:
        DataMistake: a row has none, or a negative one.
    """
    weights = column_numbers(rows[section.weight], space)
    _check_each(weights, rows[section.weight], places, space)
    return weights


def column_numbers(series: pl.Series, space: RowStorage) -> Floats:
    """The numbers of a column [N], NaN where a cell holds none."""
    values: Floats = space.array((len(series),), np.float64)
    for (start, stop), cells in zip(bounds(len(series)), slices_of(series), strict=True):
        values[start:stop] = to_numbers(cells).series.cast(pl.Float64).to_numpy()
    return values


def _check_each(weights: Floats, cells: pl.Series, places: Integers, space: RowStorage) -> None:
    def is_wrong(start: int, stop: int) -> npt.NDArray[np.bool_]:
        return ~(np.isfinite(weights[start:stop]) & (weights[start:stop] >= 0))

    wrong = chosen_positions(len(weights), is_wrong, space)
    if wrong.size:
        rows = some([int(row) + 1 for row in places[wrong[:3]]], 3, len(wrong))
        raise DataMistake(
            Problem(
                f"{many(wrong.size, 'training row')} without a weight of 0 or above",
                path=_PATH,
                found=f"{cells[int(wrong[0])]!r} in {cells.name!r} (data row {rows})",
                fix="correct the column, or remove these rows",
            )
        )


def _check_sums(weights: Floats, column: str, classes: Sequence[str], codes: Integers) -> None:
    sums = np.bincount(codes, weights, len(classes)) if classes else [float(weights.sum())]
    empty = [code for code, total in enumerate(sums) if not total > 0]
    if empty:
        of_class = f" of the class {classes[empty[0]]!r}" if classes else ""
        raise DataMistake(
            Problem(
                f"no training row{of_class} has a weight above 0",
                path=_PATH,
                found=f"only 0 in {column!r}",
                fix="correct the column, or remove data.weight",
            )
        )
