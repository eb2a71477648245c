"""Rows whose texts are on both sides of the split in nearly the same words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.core.formatting import many
from trainwright.data.audit.audit_result import AuditResult, Sides
from trainwright.data.audit.row_overlap import compared_numbers, row_hashes, verdict_of_share
from trainwright.data.base.table import Integers
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.quality.duplicates import first_of_group
from trainwright.data.quality.near_duplicates import (
    FEWEST_LETTERS,
    MOST_ROWS,
    normalised,
    text_pairs,
)


def near_texts(sides: Sides) -> list[AuditResult]:
    """Held-out rows whose texts are nearly those of a training row, and whose numbers are the same
    (see `near_duplicates` of the quality checks), where rows have texts and not three columns of
    fine numbers."""
    frame = pl.concat([sides.train, sides.held_out])
    if not _have_texts(sides.train, sides.columns) or frame.height > MOST_ROWS:
        return []
    groups = text_groups(frame, sides.columns)
    near = near_texts_of(groups, frame, sides.train.height, sides.columns, sides.target)
    found = np.flatnonzero(near)
    share = len(found) / max(1, len(near))
    return [
        AuditResult(
            "near texts",
            verdict_of_share(share),
            share,
            f"{len(found):,} of {many(len(near), 'held-out row')} have nearly the texts of a "
            f"training row ({share:.2%})",
            "near_duplicates",
            len(found),
            sides.held_out_rows(found),
            fix="data.quality.actions: {near_duplicates: drop} takes them out of training",
        )
    ]


def text_groups(frame: pl.DataFrame, columns: Sequence[ColumnType]) -> Integers:
    """For each row [N] the first row that it is nearly equal to in its texts, by pairs, one after
    the other. Texts of fewer than 20 letters are in no group with others: chance repeats them."""
    # All columns, as the checks of the quality compare them: what both compare is compared once.
    names = [column.name for column in columns]
    texts = frame.select(
        pl.concat_str(pl.col(names).cast(pl.String).fill_null(""), separator=" \n ").alias("text")
    )["text"]
    pairs = text_pairs(texts)
    long = (normalised(texts).str.len_chars() >= FEWEST_LETTERS).to_numpy()
    same = long[pairs].all(axis=1)
    for column in columns:
        if column.kind == "numeric":
            one, other = (frame[column.name].gather(pairs[:, side]) for side in (0, 1))
            same &= one.eq_missing(other).to_numpy()
    return first_of_group(frame.height, pairs[same])


def near_texts_of(
    groups: Integers, frame: pl.DataFrame, train: int, columns: Sequence[ColumnType], target: str
) -> npt.NDArray[np.bool_]:
    """Which rows after the first `train` ones are near one of these, and equal to none."""
    hashes = row_hashes(frame, [*(column.name for column in columns), target])
    equal = np.isin(hashes[train:], hashes[:train])
    found: npt.NDArray[np.bool_] = np.isin(groups[train:], groups[:train]) & ~equal
    return found


def _have_texts(train: pl.DataFrame, columns: Sequence[ColumnType]) -> bool:
    has_text = any(column.kind == "text" for column in columns)
    return has_text and not compared_numbers(train, columns)
