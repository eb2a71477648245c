"""Row-wise faults, found in chunks so that rows may stay in files. Equal to the results of
`run_checks.find_kind` on rows in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.sections.data.quality import Action, FindingKind
from trainwright.contract.sections.data.table_data import Column, TableData
from trainwright.data.base.cleaned_cells import Cells, Cleaning
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.base.row_storage import RowStorage, bounds
from trainwright.data.columns.typed_rows import Limit
from trainwright.data.quality.columns.implausible_values import broken_rows
from trainwright.data.quality.examined_data import (
    ColumnView,
    LookKind,
    are_numbers,
    column_settings_of,
    numeric_look,
)

BY_ROW: Mapping[FindingKind, tuple[Action, ...]] = MappingProxyType(
    {
        "missing": ("drop",),
        "out_of_range": ("drop", "cap", "impute"),
        "unexpected_value": ("drop",),
        "pattern_mismatch": ("drop",),
        "forbidden_missing": ("drop",),
    }
)
"""Actions that need only the row itself."""

_AS_TYPED = Cleaning((), {})


def is_by_row(kind: FindingKind, action: Action) -> bool:
    """Does an action work row by row, on rows in files?"""
    return action in ("report", *BY_ROW.get(kind, ()))


def faulty_rows(
    frame: pl.DataFrame,
    kind: FindingKind,
    section: TableData,
    left_out: frozenset[str],
    space: RowStorage,
) -> npt.NDArray[np.bool_]:
    """Fault mask of typed rows for a kind in `BY_ROW`, bool [N] in `space`. `left_out` are the
    columns that the contract excludes from the features."""
    columns = column_settings_of(section, frame)
    names = [
        name
        for name in frame.columns
        if (name not in left_out if kind == "missing" else name in columns)
    ]
    # Over all rows: a chunk may hold only numbers where the column does not.
    numbers = _numbers(frame, columns, space) if kind == "out_of_range" else frozenset()
    faulty = space.array((frame.height,), np.bool_)
    for start, stop in bounds(frame.height):
        here = faulty[start:stop]
        here[:] = False
        for name in names:
            cells = _AS_TYPED.cells(frame[name].slice(start, stop - start))
            here |= _faulty(_look(cells, name in numbers), kind, columns.get(name, Column()))
    return faulty


def written_limits(
    train: pl.DataFrame,
    section: TableData,
    left_out: frozenset[str],
    beyond: Literal["cap", "impute"],
) -> list[Limit]:
    """Limits from the contract's ranges of numeric features. They apply to new rows even if no
    training row exceeds them."""
    found = []
    for column in train:
        written = section.columns.get(column.name, Column()).range
        is_feature = (
            column.name not in {*left_out, *section.target_columns} and column.dtype.is_numeric()
        )
        if written != "any" and is_feature and column.null_count() < len(column):
            found.append(Limit(column.name, *written, beyond))
    return found


def _faulty(look: ColumnView, kind: FindingKind, column: Column) -> npt.NDArray[np.bool_]:
    if kind == "missing":
        return look.cells.is_null().to_numpy()
    broken = broken_rows(look, column)
    if kind in broken:
        return broken[kind].to_numpy()
    return np.zeros(len(look.cells), dtype=np.bool_)


def _numbers(
    frame: pl.DataFrame, columns: Mapping[str, Column], space: RowStorage
) -> frozenset[str]:
    """Columns with a range that the checks read as numbers, numeric labels included."""
    return frozenset(
        name
        for name in frame.columns
        if columns.get(name, Column()).range != "any"
        and are_numbers(Cells(frame[name], _AS_TYPED.cells, space), columns[name])
    )


def _look(cells: pl.Series, is_number: bool) -> ColumnView:
    if is_number:
        return numeric_look(cells)
    kind: LookKind = "datetime"
    values = cells
    if cells.dtype == pl.String:
        kind, values = "categorical", to_labels(cells)
    return ColumnView(cells.name, kind, cells, values, np.empty(0, dtype=np.int64), "")
