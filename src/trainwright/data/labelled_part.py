"""New labelled rows as a part."""

from __future__ import annotations

import numpy as np
import polars as pl

from trainwright.core.errors import DataMistake, Problem
from trainwright.data.base.inputs import Part, PartName
from trainwright.data.columns.column_kinds import best_typed
from trainwright.data.columns.target import Target, encode_new
from trainwright.data.encoders.encoding import FrameEncoding


def read_part(
    frame: pl.DataFrame, features: FrameEncoding, target: Target, name: PartName = "test"
) -> Part:
    """New labelled rows as a part, to evaluate a fitted model.

    Raises:
        DataMistake: columns or targets are missing or cannot be read.
    """
    if absent := [name for name in target.target_columns if name not in frame.columns]:
        raise DataMistake(
            Problem(
                f"there is no column {name!r}, which holds the target",
                path=name,
                fix="add the column, or use predict for rows without a target",
            )
            for name in absent
        )
    typed, cleaning = features.typed.read(frame), features.typed.cleaning
    rows = np.arange(frame.height, dtype=np.int64)
    known = set(typed.columns)
    others = [
        best_typed(cleaning.cells(column))
        for column in frame.get_columns()
        if column.name not in known
    ]
    answers = frame.select(target.target_columns)
    cleaned = pl.DataFrame([cleaning.cells(one) for one in answers.get_columns()])
    encoded = encode_new(target, target.cells(cleaned))
    whole = typed.with_columns(others)
    queries = target.queries(whole)
    units = rows if queries is None else queries
    return Part(name, whole, features.transform(typed), encoded, rows, units)
