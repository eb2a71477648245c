"""Held-out rows that were interpolated between training rows, as by SMOTE before the split (Chawla
et al. 2002, Journal of Artificial Intelligence Research 16, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.core.formatting import many
from trainwright.data.audit.audit_result import AuditResult, Sides, Verdict
from trainwright.data.audit.row_overlap import compared_numbers
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.row_storage import spread_rows
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
    asked = spread_rows(sides.held_out.height, _MOST_HELD_OUT)
    held_out = sides.held_out[asked]
    mask = interpolated_rows_of(sides.train, held_out, sides.columns, sides.target)
    if mask is None:
        message = "not checked: fewer than three independent columns of fine fractional numbers"
        return [AuditResult("interpolated rows", "clean", 0.0, message, "near_duplicates")]
    found = asked[mask]
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
) -> npt.NDArray[np.bool_] | None:
    """Mask of held-out rows between two training rows of their class; None where the complete rows
    span fewer than three dimensions. Of a class with very many training rows an even sample is
    compared."""
    if not (names := _compared(train, columns)):
        return None
    scale = _Scale.fit(_complete(train[spread_rows(train.height, _MOST_TRAIN)], names))
    if scale is None:
        return None
    others = _points(held_out, names)
    found = np.zeros(held_out.height, dtype=np.bool_)
    of_train = _rows_of_classes(train[target])
    for value, rows in _rows_of_classes(held_out[target]).items():
        same = of_train.get(value, np.empty(0, dtype=np.int64))
        same = same[spread_rows(len(same), _MOST_TRAIN)]
        rows = rows[np.isfinite(others[rows]).all(axis=1)]
        among = _complete(train[same], names)
        found[rows] = _between(scale.apply(others[rows]), scale.apply(among))
    return found


class _Scale(NamedTuple):
    """What standardizes the columns that vary independently: a sum of others is no dimension."""

    chosen: Integers
    mean: Floats
    spread: Floats

    @classmethod
    def fit(cls, points: Floats) -> _Scale | None:
        """Of points [N, F]; None where they span fewer than three dimensions."""
        if len(points) <= FEWEST_NUMBERS:
            return None
        # A deviation of equal numbers may be above zero by rounding.
        varies = np.flatnonzero(points.max(axis=0) > points.min(axis=0))
        mean, spread = points[:, varies].mean(axis=0), points[:, varies].std(axis=0)
        scaled = (points[:, varies] - mean) / spread
        alone = np.abs(np.diag(np.linalg.qr(scaled, mode="r"))) / np.sqrt(len(points))
        kept = np.flatnonzero(alone > _VARIES)
        if not _has_three_dimensions(scaled[:, kept]):
            return None
        return cls(varies[kept], mean[kept], spread[kept])

    def apply(self, points: Floats) -> Floats:
        """Points [N, F] in the chosen columns."""
        return np.asarray((points[:, self.chosen] - self.mean) / self.spread)


def _rows_of_classes(target: pl.Series) -> dict[Any, Integers]:
    """The rows of each class, int64, or all rows where the target is no class. Classes are sampled
    apart: both rows that another was interpolated from must be among those compared, and SMOTE is
    applied to small classes."""
    if target.dtype != pl.String:
        return {None: np.arange(len(target))}
    groups = target.to_frame("class").with_row_index("row").group_by("class").agg("row")
    return {value: rows.to_numpy().astype(np.int64) for value, rows in zip(*groups, strict=True)}


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


def _complete(frame: pl.DataFrame, names: Sequence[str]) -> Floats:
    """The numbers [N, F] of the rows that lack none."""
    points = _points(frame, names)
    return points[np.isfinite(points).all(axis=1)]


def _has_three_dimensions(points: Floats) -> bool:
    """Columns that are functions of two others have all rows near a plane, where three rows are in
    line by chance."""
    if points.shape[1] < FEWEST_NUMBERS:
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
