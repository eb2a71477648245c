"""The same row on both sides of the split: exactly, or but for rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.data.audit.audit_result import AuditResult, Sides, Verdict
from trainwright.data.base.row_storage import spread_rows
from trainwright.data.base.table import Floats, Integers
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.quality.chance_agreement import Agreement
from trainwright.data.quality.near_duplicates import FEWEST_NUMBERS, FINE, TOLERANCE, scaled

LEAK, SUSPICIOUS = 0.01, 0.003
"""Shares of the held-out rows. From a hundredth on a model that remembers rows gains a point of
accuracy; honest tables show a thousandth (elec2, whose numbers are coarse: 0.0011)."""

_COPIES = 0.95
_MOST_TRAIN, _MOST_HELD_OUT = 200_000, 20_000


def same_rows(sides: Sides) -> list[AuditResult]:
    """Held-out rows that equal a training row in every feature and the target.

    Rows of few values are equal by chance. Of the training rows whose features another one has too,
    a share `a` has the target of such a one as well. By chance the same share of the F held-out
    rows whose features a training row has would: what is beyond a F and three deviations of that is
    what was copied.
    """
    repeats = repeats_of(sides.train, sides.held_out, sides.columns, sides.target)
    equal = np.flatnonzero(repeats.equal)
    copied = repeats.copied
    share = copied / max(1, len(repeats.equal))
    message = (
        f"{len(equal):,} of {len(repeats.equal):,} held-out rows equal a training row in every "
        "feature and the target"
    )
    if copied < len(equal):
        message += f", about {copied:,.0f} more than rows of so few values do by chance"
    return [
        AuditResult(
            "same rows",
            verdict_of_share(share),
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
    """Which held-out rows [N] equal a training row in every feature and the target, and about how
    many of them are copies and no chance."""

    equal: npt.NDArray[np.bool_]
    copied: float


def repeats_of(
    train: pl.DataFrame, held_out: pl.DataFrame, columns: Sequence[ColumnType], target: str
) -> Repeats:
    """The held-out rows that repeat training rows."""
    features = [column.name for column in columns]
    known = row_hashes(train, features), row_hashes(train, [*features, target])
    asked = row_hashes(held_out, features), row_hashes(held_out, [*features, target])
    alike, equal = _among(asked[0], known[0]), _among(asked[1], known[1])
    by_chance = _repeated(known[1]) / max(1, _repeated(known[0]))
    copied = _copied(int(equal.sum()), int(alike.sum()), min(1.0, by_chance))
    if copied and _have_few_values(train, columns, target):
        copied = 0.0
    return Repeats(equal, copied)


def _have_few_values(train: pl.DataFrame, columns: Sequence[ColumnType], target: str) -> bool:
    """Whether rows have so few values that chance makes most pairs of equal ones."""
    texts = {column.name for column in columns if column.kind == "text"}
    rows = train[spread_rows(train.height, _MOST_TRAIN)]
    names = [*(column.name for column in columns), target]
    return Agreement.of(rows.select(names), frozenset({*texts, target})).by_chance()


def near_rows_of(
    train: pl.DataFrame, held_out: pl.DataFrame, columns: Sequence[ColumnType], target: str
) -> npt.NDArray[np.bool_]:
    """Which held-out rows are a training row but for rounding, and equal to none; of very many
    training rows evenly spread ones are compared. No row where chance would make such pairs."""
    fine = compared_numbers(train, columns)
    if not fine:
        return np.zeros(held_out.height, dtype=np.bool_)
    others = [column.name for column in columns if column.name not in fine]
    others += [target] if train[target].dtype == pl.String else []
    known = train[spread_rows(train.height, _MOST_TRAIN)]
    return _but_for_rounding(known, held_out, fine, others)


def compared_numbers(train: pl.DataFrame, columns: Sequence[ColumnType]) -> list[str]:
    """The columns of fine numbers, where there are enough of them."""
    numeric = [column.name for column in columns if column.kind == "numeric"]
    fine = [name for name in numeric if train[name].n_unique() > FINE]
    return fine if len(fine) >= FEWEST_NUMBERS else []


def near_rows(sides: Sides) -> list[AuditResult]:
    """Held-out rows that are a training row but for rounding: every number within 0.002 deviations,
    everything else equal. Needs three columns of more than 100 numbers; else chance makes such
    pairs."""
    if not compared_numbers(sides.train, sides.columns):
        message = "not looked for: fewer than three columns of fine numbers"
        return [AuditResult("near rows", "clean", 0.0, message, "near_duplicates")]
    asked = spread_rows(sides.held_out.height, _MOST_HELD_OUT)
    found = asked[near_rows_of(sides.train, sides.held_out[asked], sides.columns, sides.target)]
    share = len(found) / max(1, len(asked))
    message = (
        f"{len(found):,} of {len(asked):,} held-out rows are a training row but for rounding "
        f"({share:.2%})"
    )
    return [
        AuditResult(
            "near rows",
            verdict_of_share(share),
            share,
            message,
            "near_duplicates",
            len(found),
            sides.held_out_rows(found),
            fix="divide by what the rows have in common: data.split: {kind: group, column: ...}",
        )
    ]


def _but_for_rounding(
    train: pl.DataFrame, held_out: pl.DataFrame, fine: list[str], others: list[str]
) -> npt.NDArray[np.bool_]:
    """Which held-out rows are near a training row and equal to none."""
    # Imported here: data that is no table need not wait for it.
    from scipy.spatial import cKDTree

    points = _points(train, held_out, fine, others)
    near, _ = cKDTree(points[: train.height]).query(
        points[train.height :], p=np.inf, distance_upper_bound=TOLERANCE
    )
    equal = _among(row_hashes(held_out, fine + others), row_hashes(train, fine + others))
    found: npt.NDArray[np.bool_] = np.isfinite(near) & ~equal
    return found


def verdict_of_share(share: float) -> Verdict:
    """By the share of the held-out rows that repeat training rows."""
    if share >= LEAK:
        return "leak"
    return "suspicious" if share >= SUSPICIOUS else "clean"


def row_hashes(frame: pl.DataFrame, names: list[str]) -> npt.NDArray[np.uint64]:
    """A hash of the cells of each row in these columns."""
    return frame.select(names).hash_rows(seed=0).to_numpy()


def _among(asked: npt.NDArray[np.uint64], known: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Which hashes [N] are among the known ones."""
    found: npt.NDArray[np.bool_] = pl.Series(asked).is_in(pl.Series(known).implode()).to_numpy()
    return found


def _repeated(hashes: npt.NDArray[np.uint64]) -> int:
    """Rows that another one equals."""
    return int(pl.Series(hashes).is_duplicated().sum())


def _copied(equal: int, alike: int, by_chance: float) -> float:
    """About how many of the equal rows chance does not explain."""
    if by_chance > _COPIES:
        return float(equal)
    noise = 3 * math.sqrt(alike * by_chance * (1 - by_chance))
    return max(0.0, (equal - alike * by_chance - noise) / (1 - by_chance))


def _points(
    train: pl.DataFrame, held_out: pl.DataFrame, fine: list[str], others: list[str]
) -> Floats:
    """Rows as points: numbers in deviations, and a unit between rows that differ elsewhere."""
    together = pl.concat([train.select(fine + others), held_out.select(fine + others)])
    columns = [
        scaled(together[name].cast(pl.Float64).fill_null(np.nan).to_numpy()) for name in fine
    ]
    if others:
        blocks: Integers = together.select(others).hash_rows(seed=0).rank("dense").to_numpy()
        columns.append(blocks.astype(np.float64))
    return np.stack(columns, axis=1)
