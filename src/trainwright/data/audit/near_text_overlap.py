"""Near-duplicate texts across the split."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.core.formatting import many
from trainwright.data.audit.audit_result import AuditResult
from trainwright.data.audit.row_overlap import compared_numbers, row_hashes, verdict_of_share
from trainwright.data.audit.split_sides import Sides
from trainwright.data.base.table import Integers
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.quality.copies.duplicates import first_of_group
from trainwright.data.quality.copies.near_duplicates import (
    FEWEST_LETTERS,
    MOST_ROWS,
    normalised,
    text_pairs,
)


def near_texts(sides: Sides) -> list[AuditResult]:
    """Held-out rows with the numbers and nearly the texts of a training row (see `near_duplicates`
    of the quality checks), for data with texts and fewer than three columns of fine-grained
    numbers."""
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
            verdict_of_share(share, len(found)),
            share,
            f"{len(found):,} of {many(len(near), 'held-out row')} nearly repeat the texts of a "
            f"training row ({share:.2%})",
            "near_duplicates",
            len(found),
            sides.held_out_rows(found),
            fix="data.quality.actions: {near_duplicates: drop} removes them from training",
        )
    ]


def text_groups(frame: pl.DataFrame, columns: Sequence[ColumnType]) -> Integers:
    """Index [N] of the first row of each row's connected component of near-duplicate texts. Texts
    of fewer than 20 letters are singletons: they repeat by chance."""
    # All columns, as in the quality checks, so that the cached pairs are reused.
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
    """Mask of rows after the first `train` rows that are near, and not equal to, one of those."""
    hashes = row_hashes(frame, [*(column.name for column in columns), target])
    equal = np.isin(hashes[train:], hashes[:train])
    found: npt.NDArray[np.bool_] = np.isin(groups[train:], groups[:train]) & ~equal
    return found


def _have_texts(train: pl.DataFrame, columns: Sequence[ColumnType]) -> bool:
    has_text = any(column.kind == "text" for column in columns)
    return has_text and not compared_numbers(train, columns)
