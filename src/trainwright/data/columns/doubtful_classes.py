"""Target classes with several spellings."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from trainwright.contract.data import Column
from trainwright.core.formatting import many
from trainwright.data.base.cell_values import to_labels
from trainwright.data.base.column_reader import Cells
from trainwright.data.base.messages import some
from trainwright.data.base.spelling import folded
from trainwright.data.base.value_counts import counted_slices
from trainwright.data.columns.doubts import Doubt

_MOST_SPELLINGS = 2000


def find_class_spellings(cells: Cells) -> Doubt | None:
    """Proposed canonical spelling of each class; None if spellings are unique."""
    if cells.dtype != pl.String or not cells.present or not cells.not_numbers:
        return None
    if cells.distinct > _MOST_SPELLINGS:
        return None
    counts = counted_slices(to_labels(one.drop_nulls()) for one in cells.slices())
    spellings = one_spelling(counts)
    if not spellings:
        return None
    known = len(counts)
    shown = some([f"{one!r} for {other!r}" for one, other in spellings.items()], 3)
    reason = f"{known - len(spellings):,} classes in {many(known, 'spelling')}: {shown}"
    return Doubt(cells.name, Column(values=dict(spellings)), reason)


def one_spelling(spellings: pl.DataFrame) -> Mapping[str, str]:
    """Map from each word of `counted` that is a variant (case, blanks, hyphens or a final full
    stop) of a more frequent one to that one. Single letters are distinct classes: `a` is not
    `A`."""
    spellings = spellings.with_columns(folded(spellings["value"], "kept").alias("plain"))
    spellings = spellings.filter(pl.col("plain").str.len_chars() > 1)
    first = pl.col("value").first().over("plain").alias("first")
    others = spellings.with_columns(first).filter(pl.col("value") != pl.col("first"))
    return dict(zip(others["value"].to_list(), others["first"].to_list(), strict=True))
