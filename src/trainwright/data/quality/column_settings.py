"""What a contract says of columns, as the checks need it."""

from __future__ import annotations

import polars as pl

from trainwright.contract.data import Column, TableData, TimeSplit, split_columns


def key_columns(section: TableData) -> tuple[str, ...]:
    """The columns that only divide the rows: the split's group or part, but not its time."""
    if isinstance(section.split, TimeSplit):
        return ()
    return tuple(name for _, name in split_columns(section.split))


def column_settings_of(section: TableData, typed: pl.DataFrame) -> dict[str, Column]:
    """What the contract says of columns, and that labels are classes, also labels of numbers."""
    columns = dict(section.columns)
    if section.target in typed.columns and typed[section.target].dtype == pl.String:
        said = columns.get(section.target, Column())
        columns[section.target] = said.model_copy(update={"kind": "categorical"})
    return columns
