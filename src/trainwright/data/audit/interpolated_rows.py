"""Held-out rows that were interpolated between training rows, as by SMOTE before the split (Chawla
et al. 2002, Journal of Artificial Intelligence Research 16, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.core.formatting import many
from trainwright.data.audit.audit_result import AuditResult, Sides, Verdict
from trainwright.data.audit.row_overlap import compared_numbers
from trainwright.data.base.row_storage import spread_rows
from trainwright.data.base.table import Floats
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.quality.copies.near_duplicates import FEWEST_NUMBERS

LEAK, SUSPICIOUS = 0.05, 0.01
"""Shares of the held-out rows: honest tables have none, SMOTE to equal class shares 7% to 60%. No
experiment can take them away: the rows they were made of are held out as well."""

_MOST_TRAIN, _MOST_HELD_OUT = 100_000, 300
_MOST_COLUMNS, _NEIGHBOURS = 16, 60
_OPPOSITE = -1 + 1e-9
"""Cosine of two directions that are opposite but for the rounding to six digits."""

_VARIES, _LEAST_DISTANCE, _LEAST_SPREAD = 1e-3, 1e-6, 0.1
_LATTICE = np.array(sorted({float(Fraction(p, q)) for q in range(2, 9) for p in range(1, q)}))
_OFF_LATTICE = 1e-3
"""Rows on a grid stand between others too, at simple fractions of the way."""


def interpolated_rows(sides: Sides) -> list[AuditResult]:
    """Held-out rows on the segment between two training rows of their class, in at least three
    columns of fine fractional numbers. In three dimensions and more no honest row is there by
    chance."""
    names = _compared(sides.train, sides.columns)
    if not names:
        message = "not checked: fewer than three columns of fine fractional numbers"
        return [AuditResult("interpolated rows", "clean", 0.0, message, "near_duplicates")]
    asked = spread_rows(sides.held_out.height, _MOST_HELD_OUT)
    held_out = sides.held_out[asked]
    found = asked[interpolated_rows_of(sides.train, held_out, sides.columns, sides.target)]
    share = len(found) / max(1, len(asked))
    message = (
        f"{len(found):,} of {many(len(asked), 'held-out row')} "
        f"{'is' if len(found) == 1 else 'are'} on the line between two training rows"
    )
    return [
        AuditResult(
            "interpolated rows",
            _verdict_of(share),
            share,
            message,
            "near_duplicates",
            len(found),
            sides.held_out_rows(found),
            fix="interpolate (SMOTE) training rows only, after the split: give the rows as they "
            "were measured, and weigh the classes with model.class_weights: balanced (trees) or "
            "training.loss: {name: cross_entropy, class_weights: balanced} (networks)",
        )
    ]


def _verdict_of(share: float) -> Verdict:
    if share >= LEAK:
        return "leak"
    return "suspicious" if share >= SUSPICIOUS else "clean"


def interpolated_rows_of(
    train: pl.DataFrame, held_out: pl.DataFrame, columns: Sequence[ColumnType], target: str
) -> npt.NDArray[np.bool_]:
    """Mask of held-out rows between two training rows of their class; of very many training rows an
    even sample is compared."""
    found = np.zeros(held_out.height, dtype=np.bool_)
    names = _compared(train, columns)
    if not names:
        return found
    known = train[spread_rows(train.height, _MOST_TRAIN)]
    points, others = _points(known, names), _points(held_out, names)
    complete = np.isfinite(points).all(axis=1)
    mean, spread = points[complete].mean(axis=0), points[complete].std(axis=0)
    if not _has_three_dimensions((points[complete] - mean) / spread):
        return found
    points, others = (points - mean) / spread, (others - mean) / spread
    is_class = train[target].dtype == pl.String
    of_train = known[target].to_numpy() if is_class else np.zeros(len(points))
    of_others = held_out[target].to_numpy() if is_class else np.zeros(len(others))
    for value in dict.fromkeys(of_others.tolist()):
        rows = np.flatnonzero((of_others == value) & np.isfinite(others).all(axis=1))
        among = points[(of_train == value) & complete]
        found[rows] = _between(others[rows], among)
    return found


def _compared(train: pl.DataFrame, columns: Sequence[ColumnType]) -> list[str]:
    """Columns of fine numbers that are not all whole."""
    fine = [
        name
        for name in compared_numbers(train, columns)
        if bool(train.select((pl.col(name) % 1 != 0).any()).item())
    ]
    return fine[:_MOST_COLUMNS] if len(fine) >= FEWEST_NUMBERS else []


def _points(frame: pl.DataFrame, names: Sequence[str]) -> Floats:
    """The numbers [N, F], nan where missing."""
    return frame.select(pl.col(names).cast(pl.Float64).fill_null(np.nan)).to_numpy()


def _has_three_dimensions(points: Floats) -> bool:
    """Columns that are functions of two others have all rows near a plane, where three rows are in
    line by chance."""
    if len(points) <= FEWEST_NUMBERS:
        return False
    values = np.linalg.svd(points, compute_uv=False) / np.sqrt(len(points))
    return bool(values[FEWEST_NUMBERS - 1] > _LEAST_SPREAD)


def _between(rows: Floats, among: Floats) -> npt.NDArray[np.bool_]:
    """Mask of rows [N, F] on a segment of two of their nearest points [M, F]."""
    # Imported here to keep other modalities free of it.
    from scipy.spatial import cKDTree

    if not len(rows) or len(among) < 2:
        return np.zeros(len(rows), dtype=np.bool_)
    _, near = cKDTree(among).query(rows, k=min(_NEIGHBOURS, len(among)))
    return np.array([_is_between(among[one] - row) for row, one in zip(rows, near, strict=True)])


def _is_between(ways: Floats) -> bool:
    """Are two of these vectors [K, F] opposite, in three columns, and not as on a grid?"""
    lengths = np.linalg.norm(ways, axis=1)
    apart = lengths > _LEAST_DISTANCE
    lengths, ways = lengths[apart], ways[apart] / lengths[apart, None]
    first, second = np.nonzero(np.triu(ways @ ways.T < _OPPOSITE, 1))
    wide = (np.abs(ways[first]) > _VARIES).sum(axis=1) >= FEWEST_NUMBERS
    place = lengths[first] / (lengths[first] + lengths[second])
    on_grid = (np.abs(place[:, None] - _LATTICE) < _OFF_LATTICE).any(axis=1)
    return bool((wide & ~on_grid).any())
