"""Sentences among words: columns whose texts say something, rather than name a row."""

from __future__ import annotations

import polars as pl

from trainwright.contract.sections.data.column import Column
from trainwright.data.base.storage.row_storage import spread_rows
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.columns.doubts import Doubt

FREE_TEXT = "free text"
"""How the reason of a column begins that is no feature because its texts hardly repeat."""

_LOOKED_AT = 10_000
_WORDS = 5
_MOST_CAPITALS = 0.5


def find_free_text(column: ColumnType, values: pl.Series) -> Doubt | None:
    """The proposal that a column is a text; None for names, addresses and codes."""
    if not column.reason.startswith(FREE_TEXT) or not _are_sentences(values):
        return None
    reason = f"{column.reason}, of several words each"
    return Doubt(column.name, Column(kind="text"), reason)


def _are_sentences(values: pl.Series) -> bool:
    """Whether most values have several words, and most words no capital and no digit in front."""
    texts = values[spread_rows(len(values), _LOOKED_AT)].drop_nulls()
    if texts.dtype != pl.String or not len(texts):
        return False
    words = texts.str.count_matches(r"\S+")
    if (words >= _WORDS).sum() * 2 <= len(texts):
        return False
    capitals = texts.str.count_matches(r"(?:^|\s)[^\p{L}\s]*(?:\p{Lu}|\p{N})")
    return int(capitals.sum()) <= _MOST_CAPITALS * int(words.sum())
