"""Adversarial validation: a model that tries to tell held-out rows from training rows."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from trainwright.contract.data import (
    ColumnSplit,
    FileSplit,
    GroupSplit,
    StratifiedGroupSplit,
    TimeSplit,
    split_columns,
)
from trainwright.core.import_gc import loading
from trainwright.data.audit.audit_result import AuditResult, Sides
from trainwright.data.base.row_storage import spread_rows
from trainwright.data.base.table import Floats, Integers
from trainwright.data.base.value_counts import count_values
from trainwright.data.statistics.leak_tests import rank_auc

APART, APART_GIVEN = 0.6, 0.75
"""ROC AUC from which the two sides differ. Drawn at random they stay at 0.5 within 0.05 at a
thousand rows a side; parts that somebody else divided often differ somewhat. Other groups, and the
future, differ as they must: there the number is said and nothing is made of it."""

_DEVIATIONS = 5.0
_MOST_ROWS = 2_000
_FOLDS = 3
_TREES = 40
_NAMED = 3
_MOST_CODES = 200
_OPTIONS = {
    "objective": "binary",
    "num_leaves": 15,
    "min_data_in_leaf": 20,
    "learning_rate": 0.1,
    "verbosity": -1,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "seed": 0,
}


def different_rows(sides: Sides) -> list[AuditResult]:
    """The cross-validated ROC AUC of boosted trees that tell training from held-out rows by their
    features and the target, with the columns that they split on most."""
    matrix, names, sources = _matrix(sides)
    if not names or min(np.bincount(sources, minlength=2)) < _FOLDS * _FOLDS:
        message = "not looked for: too few rows or columns"
        return [AuditResult("different rows", "clean", 0.5, message, "train_test_difference")]
    scores, gains = _told_apart(matrix, sources)
    area = rank_auc(pl.Series(scores), sources == 1)
    given = isinstance(sides.split, ColumnSplit | FileSplit) or sides.given
    limit = max(APART_GIVEN if given else APART, 0.5 + _DEVIATIONS * _deviation(sources))
    best = [names[i] for i in np.argsort(-gains)[:_NAMED] if gains[i] > 0]
    message = f"a model tells held-out rows from training rows with a ROC AUC of {area:.2f}"
    if area >= limit and isinstance(sides.split, GroupSplit | StratifiedGroupSplit | TimeSplit):
        message += f", above all by {', '.join(map(repr, best))}: they are others by design"
        return [AuditResult("different rows", "clean", area, message, "train_test_difference")]
    if area < limit:
        return [AuditResult("different rows", "clean", area, message, "train_test_difference")]
    return [
        AuditResult(
            "different rows",
            "suspicious",
            area,
            f"{message}, above all by {', '.join(map(repr, best))}",
            "train_test_difference",
            sides.held_out.height,
            columns=tuple(best),
            fix="look whether the test rows are those the model will meet; leave out columns that "
            "only count or date the rows",
        )
    ]


def _matrix(sides: Sides) -> tuple[Floats, list[str], Integers]:
    """Features and target of both sides, float64 [n, F], and the side of each row (1 held out)."""
    parts = [
        frame[spread_rows(frame.height, _MOST_ROWS)] for frame in (sides.train, sides.held_out)
    ]
    sources = np.repeat([0, 1], [part.height for part in parts])
    timed = isinstance(sides.split, TimeSplit)
    known = {name for _, name in split_columns(sides.split)} if timed else set()
    names = [column.name for column in sides.columns if column.name not in known] + [sides.target]
    together = pl.concat([part.select(names) for part in parts])
    columns = [_numbers(together[name]) for name in names]
    return np.stack(columns, axis=1), names, sources


def _numbers(series: pl.Series) -> Floats:
    """Numbers as they are, dates as moments, words by how common they are: an order that a tree can
    use, and that holds nothing of the sides."""
    if series.dtype == pl.String:
        labels = count_values(series)["value"].head(_MOST_CODES)
        codes = list(range(len(labels)))
        coded = series.replace_strict(labels, codes, default=_MOST_CODES, return_dtype=pl.Float64)
        return coded.to_numpy()
    if series.dtype == pl.Datetime("us"):
        series = series.cast(pl.Int64)
    return series.cast(pl.Float64).fill_null(np.nan).to_numpy()


def _told_apart(matrix: Floats, sources: Integers) -> tuple[Floats, Floats]:
    """Scores of each row by a model that did not see it, and the gain of each column."""
    # Imported here: a run that only reads its data does not need it.
    with loading():
        import lightgbm

    folds = np.empty(len(sources), dtype=np.int64)
    for side in (0, 1):
        rows = np.flatnonzero(sources == side)
        shuffled = np.random.default_rng(0).permutation(len(rows))
        folds[rows[shuffled]] = np.arange(len(rows)) % _FOLDS
    scores = np.empty(len(sources))
    gains = np.zeros(matrix.shape[1])
    weights = np.where(sources == 1, (sources == 0).sum() / (sources == 1).sum(), 1.0)
    for fold in range(_FOLDS):
        seen = folds != fold
        data = lightgbm.Dataset(matrix[seen], sources[seen], weight=weights[seen])
        model = lightgbm.train(_OPTIONS, data, _TREES)
        scores[~seen] = np.asarray(model.predict(matrix[~seen], num_threads=1))
        gains += model.feature_importance("gain")
    return scores, gains


def _deviation(sources: Integers) -> float:
    """The deviation of the AUC of scores that tell nothing."""
    ones, zeros = int(sources.sum()), int((sources == 0).sum())
    return math.sqrt((ones + zeros + 1) / (12 * ones * zeros))
