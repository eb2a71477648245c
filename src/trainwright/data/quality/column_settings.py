"""Column settings of the contract, as the checks need them."""

from __future__ import annotations

import polars as pl

from trainwright.contract.sections.data.column import Column
from trainwright.contract.sections.data.split import TimeSplit, split_columns
from trainwright.contract.sections.data.table_data import TableData


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
    for name in section.target_columns:
        if name not in typed.columns or typed[name].dtype != pl.String:
            continue
        said = columns.get(name, Column())
        columns[name] = said.model_copy(update={"kind": "categorical"})
    return columns


def examined_target(section: TableData) -> str:
    """The target that the checks see: of several the first, of labels in one column none, since
    their combinations are no classes."""
    return "" if section.labels.separator else section.target_columns[0]


def other_targets(section: TableData, target: str = "") -> tuple[str, ...]:
    """Targets that are no features either, beside the one that the checks see."""
    seen = target or examined_target(section)
    return tuple(name for name in section.target_columns if name != seen)
