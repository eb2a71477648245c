"""Row overlap between the sides of the split: exact, up to rounding, near texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.sections.data.split import GroupSplit, StratifiedGroupSplit, TimeSplit
from trainwright.core.formatting import many
from trainwright.data.audit.audit_result import AuditResult, Sides, Verdict
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.row_storage import spread_rows
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.quality.copies.duplicates import EqualPairs, first_of_group
from trainwright.data.quality.copies.near_duplicates import (
    FEWEST_LETTERS,
    FEWEST_NUMBERS,
    FINE,
    MOST_ROWS,
    TOLERANCE,
    fewest_known,
    normalised,
    scaled,
    text_pairs,
)

LEAK, SUSPICIOUS = 0.01, 0.003
"""Shares of the held-out rows. From 1 % on, a memorising model gains a point of accuracy; clean
tables reach 0.1 % (elec2, with coarse numbers: 0.0011)."""

_FEWEST = 3
"""Rows that it takes for a leak: one or two of few held-out rows are a large share by chance, as
the one flower of 150 irises that was measured like another."""

_BY_UNIT = (GroupSplit, StratifiedGroupSplit, TimeSplit)
_MOST_TRAIN, _MOST_HELD_OUT = 200_000, 20_000


def same_rows(sides: Sides) -> list[AuditResult]:
    """Held-out rows that equal a training row in every feature and the target.

    Rows with few distinct values coincide by chance (see `EqualPairs`): then none is a copy. It is
    a leak only if more pairs of rows are equal than differ in one column; if fewer, and the split
    goes by group or time, rows of two units are alike.
    """
    repeats = repeats_of(sides.train, sides.held_out, sides.columns, sides.target)
    equal = np.flatnonzero(repeats.equal)
    copied = repeats.copied
    share = copied / max(1, len(repeats.equal))
    message = (
        f"{len(equal):,} of {many(len(repeats.equal), 'held-out row')} "
        f"{'equals' if len(equal) == 1 else 'equal'} a training row in every feature and the target"
    )
    if round(copied) < len(equal):
        message += f", about {copied:,.0f} more than expected by chance"
    verdict = verdict_of_share(share, copied)
    if not repeats.are_copies and isinstance(sides.split, _BY_UNIT):
        verdict = "clean"
    elif not repeats.are_copies and verdict == "leak":
        verdict = "suspicious"
    return [
        AuditResult(
            "same rows",
            verdict,
            share,
            message,
            "exact_duplicates",
            len(equal),
            sides.held_out_rows(equal),
            fix='keep equal rows on one side: data.split: {kind: random, key: "*"}, or drop them',
        )
    ]


@final
@dataclass(frozen=True, slots=True)
class Repeats:
    """Mask [N] of held-out rows that equal a training row in every feature and the target, the
    estimated number of copies beyond chance, and whether equal rows outnumber nearly equal ones."""

    equal: npt.NDArray[np.bool_]
    copied: float
    are_copies: bool


def repeats_of(
    train: pl.DataFrame, held_out: pl.DataFrame, columns: Sequence[ColumnType], target: str
) -> Repeats:
    """Held-out rows that duplicate training rows. Identifiers and other ignored columns do not
    count."""
    names = [*(column.name for column in columns if column.kind != "ignored"), target]
    equal = _among(row_hashes(held_out, names), row_hashes(train, names))
    if not equal.any():
        return Repeats(equal, 0.0, False)
    texts = [column.name for column in columns if column.kind == "text"]
    pairs = EqualPairs.of(pl.concat([train.select(names), held_out.select(names)]), texts)
    honest = 1.0 if pairs.are_chance else min(1.0, pairs.by_chance / max(1.0, pairs.equal))
    return Repeats(equal, float(equal.sum()) * (1 - honest), pairs.are_copies)


def near_rows_of(
    train: pl.DataFrame, held_out: pl.DataFrame, columns: Sequence[ColumnType], target: str
) -> npt.NDArray[np.bool_]:
    """Mask of held-out rows equal to a training row up to rounding, but not exactly; very many
    training rows are subsampled evenly. None where such pairs arise by chance."""
    fine = compared_numbers(train, columns)
    if not fine:
        return np.zeros(held_out.height, dtype=np.bool_)
    others = [column.name for column in columns if column.name not in fine]
    others += [target] if train[target].dtype == pl.String else []
    known = train[spread_rows(train.height, _MOST_TRAIN)]
    return _but_for_rounding(known, held_out, fine, others)


def compared_numbers(train: pl.DataFrame, columns: Sequence[ColumnType]) -> list[str]:
    """Fine-grained numeric columns, if there are enough of them."""
    numeric = [column.name for column in columns if column.kind == "numeric"]
    fine = [name for name in numeric if train[name].n_unique() > FINE]
    return fine if len(fine) >= FEWEST_NUMBERS else []


def near_rows(sides: Sides) -> list[AuditResult]:
    """Held-out rows equal to a training row up to rounding: every number within 0.002 standard
    deviations, everything else equal; under a time split these stay as they were. Needs three
    columns of more than 100 distinct numbers; otherwise such pairs arise by chance."""
    grouped = isinstance(sides.split, GroupSplit | StratifiedGroupSplit)
    if not grouped and any(structure.entity for structure in sides.structures):
        message = "not checked: rows of one unit may be near each other"
        return [AuditResult("near rows", "clean", 0.0, message, "near_duplicates")]
    if not compared_numbers(sides.train, sides.columns):
        message = "not checked: fewer than three columns of fine-grained numbers"
        return [AuditResult("near rows", "clean", 0.0, message, "near_duplicates")]
    asked = spread_rows(sides.held_out.height, _MOST_HELD_OUT)
    found = asked[near_rows_of(sides.train, sides.held_out[asked], sides.columns, sides.target)]
    share = len(found) / max(1, len(asked))
    message = (
        f"{len(found):,} of {many(len(asked), 'held-out row')} "
        f"{'equals' if len(found) == 1 else 'equal'} a training row up to rounding ({share:.2%})"
    )
    return [
        AuditResult(
            "near rows",
            "clean" if isinstance(sides.split, TimeSplit) else verdict_of_share(share, len(found)),
            share,
            message,
            "near_duplicates",
            len(found),
            sides.held_out_rows(found),
            fix="split by what these rows share: data.split: {kind: group, column: ...}",
        )
    ]


def _but_for_rounding(
    train: pl.DataFrame, held_out: pl.DataFrame, fine: list[str], others: list[str]
) -> npt.NDArray[np.bool_]:
    """Mask of held-out rows near, but not equal to, a training row."""
    # Imported here to keep other modalities free of it.
    from scipy.spatial import cKDTree

    points = _points(train, held_out, fine, others)
    near, _ = cKDTree(points[: train.height]).query(
        points[train.height :], p=np.inf, distance_upper_bound=TOLERANCE
    )
    equal = _among(row_hashes(held_out, fine + others), row_hashes(train, fine + others))
    # Rows that lack the same numbers have little in common.
    known = held_out.select(pl.sum_horizontal(pl.col(fine).is_not_null())).to_series().to_numpy()
    found: npt.NDArray[np.bool_] = np.isfinite(near) & ~equal & (known >= fewest_known(len(fine)))
    return found


def verdict_of_share(share: float, count: float) -> Verdict:
    """Verdict for a share of duplicated held-out rows, and their number."""
    if share >= LEAK and round(count) >= _FEWEST:
        return "leak"
    return "suspicious" if share >= SUSPICIOUS else "clean"


def row_hashes(frame: pl.DataFrame, names: list[str]) -> npt.NDArray[np.uint64]:
    """Row hashes over these columns."""
    return frame.select(names).hash_rows(seed=0).to_numpy()


def _among(asked: npt.NDArray[np.uint64], known: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Membership mask of hashes [N] in the known ones."""
    found: npt.NDArray[np.bool_] = pl.Series(asked).is_in(pl.Series(known).implode()).to_numpy()
    return found


def _points(
    train: pl.DataFrame, held_out: pl.DataFrame, fine: list[str], others: list[str]
) -> Floats:
    """Rows as points: numbers in standard deviations, plus a unit distance between rows that differ
    elsewhere."""
    together = pl.concat([train.select(fine + others), held_out.select(fine + others)])
    columns = [
        scaled(together[name].cast(pl.Float64).fill_null(np.nan).to_numpy()) for name in fine
    ]
    if others:
        blocks: Integers = together.select(others).hash_rows(seed=0).rank("dense").to_numpy()
        columns.append(blocks.astype(np.float64))
    return np.stack(columns, axis=1)


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
