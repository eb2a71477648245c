"""Column settings of the contract, as the checks need them."""

from __future__ import annotations

import polars as pl

from trainwright.contract.sections.data.column import Column
from trainwright.contract.sections.data.data import TableData, TimeSplit, split_columns


def key_columns(section: TableData) -> tuple[str, ...]:
    """Columns used only to split, the group or part column but not the time column, and that of the
    weights."""
    weight = (section.weight,) if section.weight else ()
    if isinstance(section.split, TimeSplit):
        return weight
    return (*weight, *(name for _, name in split_columns(section.split)))


def column_settings_of(section: TableData, typed: pl.DataFrame) -> dict[str, Column]:
    """Column settings with the target fixed as classes where it is, even if the labels are
    numeric."""
    columns = dict(section.columns)
    if section.target in typed.columns and typed[section.target].dtype == pl.String:
        said = columns.get(section.target, Column())
        columns[section.target] = said.model_copy(update={"kind": "categorical"})
    return columns
