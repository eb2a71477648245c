"""New labelled rows as a part."""

from __future__ import annotations

import numpy as np
import polars as pl

from trainwright.core.errors import DataMistake, Problem
from trainwright.data.base.table import Part, PartName
from trainwright.data.columns.column_kinds import best_typed
from trainwright.data.columns.target import encode_new
from trainwright.data.columns.target_kind import Target
from trainwright.data.encoders.encoding import FrameEncoding


def read_part(
    frame: pl.DataFrame, features: FrameEncoding, target: Target, name: PartName = "test"
) -> Part:
    """New labelled rows as a part, to evaluate a fitted model.

    Raises:
        DataMistake: columns or targets are missing or cannot be read.
    """
    if target.column not in frame.columns:
        raise DataMistake(
            Problem(
                f"there is no column {target.column!r}, which holds the target",
                path=target.column,
                fix="add the column, or use predict for rows without a target",
            )
        )
    typed, cleaning = features.typed.read(frame), features.typed.cleaning
    rows = np.arange(frame.height, dtype=np.int64)
    known = set(typed.columns)
    others = [
        best_typed(cleaning.cells(column))
        for column in frame.get_columns()
        if column.name not in known
    ]
    encoded = encode_new(target, cleaning.cells(frame[target.column]))
    whole = typed.with_columns(others)
    queries = target.queries(whole)
    units = rows if queries is None else queries
    return Part(name, whole, features.transform(typed), encoded, rows, units)
