"""Several targets of a table, typed and fitted."""

from __future__ import annotations

import polars as pl

from trainwright.contract.sections.data.table_data import TableData
from trainwright.data.base.row_storage import RowStorage, bounds, slices_of
from trainwright.data.columns.label_set import fit_label_set
from trainwright.data.columns.number_target import Numbers
from trainwright.data.columns.several_targets import fit_several_numbers
from trainwright.data.columns.target import Target, encoded


def type_targets(
    frame: pl.DataFrame, section: TableData, task: str, space: RowStorage
) -> pl.DataFrame:
    """Several targets as numbers; labels are unchanged."""
    names = [name for name in section.target_columns if frame[name].dtype != pl.Float64()]
    if task != "regression" or not names:
        return frame
    values = {name: encoded(Numbers(name, 0.0, 1.0), frame[name], space) for name in names}
    typed = (
        rows.with_columns(pl.Series(name, values[name][start:stop]) for name in names)
        for (start, stop), rows in zip(bounds(frame.height), slices_of(frame), strict=True)
    )
    return space.frame(typed)


def fit_targets_of(train: pl.DataFrame, section: TableData, task: str) -> Target:
    """The targets of the training rows.

    Raises:
        DataMistake: they cannot be learned.
    """
    if task == "regression":
        return fit_several_numbers(train, section.target_columns)
    labels = section.labels
    return fit_label_set(train, section.target_columns, labels.separator, labels.empty)
