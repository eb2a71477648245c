"""Leakage by features: columns that tell the target, or the side of the split."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from trainwright.contract.sections.data.split import (
    ColumnSplit,
    FileSplit,
    GroupSplit,
    StratifiedGroupSplit,
    TimeSplit,
    split_columns,
)
from trainwright.core.formatting import many
from trainwright.core.process import loading
from trainwright.data.audit.audit_result import AuditResult, Sides, Test
from trainwright.data.base.categories import count_values
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.row_storage import spread_rows
from trainwright.data.statistics.dependence import LEAK, MADE_OF, SUSPICIOUS, made_share, told_share
from trainwright.data.statistics.lag_detection import lags
from trainwright.data.statistics.leak_tests import (
    FIRM_LEAK,
    FIRM_SUSPICION,
    find_leaks,
    find_suspicions,
    rank_auc,
)
from trainwright.data.statistics.row_structure import explained_changes, names_rows

_MOST_ROWS = 50_000
FIX = "list the column in data.exclude if it is not known when a prediction is made"


def tells_the_target(sides: Sides) -> list[AuditResult]:
    """Features that determine the target, alone or in an exact linear combination. Under a time
    split a lag of the target is at most suspicious."""
    lagged = _lagged(sides)
    sides = sides.without_lags
    train = sides.train[spread_rows(sides.train.height, _MOST_ROWS)]
    target = train[sides.target]
    found = [*lagged, *_future_values(sides)]
    for leak in find_leaks(train, sides.columns, sides.target, sides.structures):
        found.append(_leak(leak.columns, leak.message, 1.0))
    known = {name for one in found for name in one.columns}
    shares = {
        name: told_share(train[name], target) for name in _candidates(sides) if name not in known
    }
    for name, share in shares.items():
        if share > LEAK and _holds(train, sides, name, FIRM_LEAK):
            found.append(
                _leak((name,), f"{name!r} alone explains {share:.2%} of the target", share)
            )
    known |= {name for one in found for name in one.columns}
    found += _suspicions(train, sides, shares, known)
    if found:
        return found
    best = max(shares, key=lambda name: shares[name], default="")
    number = shares.get(best, 0.0)
    message = f"no feature leaks the target; {best!r} explains most of it, {number:.1%}"
    return [AuditResult("tells the target", "clean", number, message)]


def function_of_the_target(sides: Sides) -> list[AuditResult]:
    """Features derived from the target, even if not invertible: a bin of it, its distance from the
    mean, its last digits."""
    sides = sides.without_lags
    train = sides.train[spread_rows(sides.train.height, _MOST_ROWS)]
    target = train[sides.target]
    found: list[AuditResult] = []
    most = 0.0
    for name in _candidates(sides):
        share = made_share(train[name], target)
        most = max(most, share)
        if share > MADE_OF and _holds(train, sides, name, FIRM_LEAK):
            message = f"{name!r} is {share:.2%} explained by the target: target leakage"
            found.append(_leak((name,), message, share, "function of the target"))
    if found:
        return found
    message = (
        f"no feature derives from the target, which explains at most {max(most, 0.0):.1%} of one"
    )
    return [AuditResult("function of the target", "clean", most, message)]


def _candidates(sides: Sides) -> list[str]:
    """Numeric and categorical features, except those that say whose and when a row is."""
    keys = names_rows(sides.structures)
    return [name for name in sides.of_kind("numeric", "categorical") if name not in keys]


def _holds(train: pl.DataFrame, sides: Sides, name: str, least: float) -> bool:
    """Does a relation with the target hold for changes in time, where the rows are a series?"""
    return explained_changes(train, sides.structures, (name,), sides.target) > least


def _lagged(sides: Sides) -> list[AuditResult]:
    """Informative lags of the target."""
    found = []
    target = sides.train[sides.target]
    for name, steps in sides.lags.items():
        share = told_share(sides.train[name], target)
        if share <= SUSPICIOUS:
            continue
        found.append(
            AuditResult(
                "tells the target",
                "suspicious",
                share,
                f"{name!r} is the target of {many(steps, 'row')} earlier and explains {share:.2%} "
                "of it: no leak if it is known when a prediction is made",
                "suspicious_feature",
                1,
                columns=(name,),
                fix=f"{FIX}; compare the model with the naive forecast {name!r}",
            )
        )
    return found


def _future_values(sides: Sides) -> list[AuditResult]:
    """Features that are the target of a later row."""
    if not isinstance(sides.split, TimeSplit):
        return []
    names, moment = sides.of_kind("numeric"), sides.split.moment
    return [
        _leak((name,), f"{name!r} is the target of {many(rows, 'row')} later", 1.0)
        for name, rows in lags(sides.train, names, sides.target, moment, ahead=True).items()
    ]


def _leak(
    columns: tuple[str, ...], message: str, number: float, test: Test = "tells the target"
) -> AuditResult:
    return AuditResult(
        test, "leak", number, message, "leak", len(columns), columns=columns, fix=FIX
    )


def _suspicions(
    train: pl.DataFrame, sides: Sides, shares: dict[str, float], known: set[str]
) -> list[AuditResult]:
    honest = [column for column in sides.columns if column.name not in known]
    said = {
        one.columns: (abs(one.number), one.message)
        for one in find_suspicions(train, honest, sides.target, sides.structures)
    }
    for name, share in shares.items():
        unsaid = name not in known and (name,) not in said
        if share > SUSPICIOUS and unsaid and _holds(train, sides, name, FIRM_SUSPICION):
            said[name,] = (share, f"{name!r} alone explains {share:.2%} of the target")
    return [
        AuditResult(
            "tells the target",
            "suspicious",
            number,
            message,
            "suspicious_feature",
            len(names),
            columns=names,
            fix=FIX,
        )
        for names, (number, message) in said.items()
    ]


APART, APART_GIVEN = 0.6, 0.75
"""ROC AUC from which the two sides differ. Random splits stay within 0.05 of 0.5 at a thousand rows
a side; splits made elsewhere often differ somewhat. Group and time splits differ by design: there
the number is only reported."""

_DEVIATIONS = 5.0
_MOST_COMPARED_ROWS = 2_000
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
    """Cross-validated ROC AUC of boosted trees that classify training against held-out rows by
    features and target, with the columns of highest gain. Sides drawn at random from the same rows
    differ by chance alone, so nothing is fitted for them."""
    if sides.drawn:
        message = "not checked: the parts were drawn at random and differ by chance alone"
        return [AuditResult("different rows", "clean", 0.5, message, "train_test_difference")]
    matrix, names, sources = _matrix(sides)
    if not names or min(np.bincount(sources, minlength=2)) < _FOLDS * _FOLDS:
        message = "not checked: too few rows or columns"
        return [AuditResult("different rows", "clean", 0.5, message, "train_test_difference")]
    scores, gains = _told_apart(matrix, sources)
    area = rank_auc(pl.Series(scores), sources == 1)
    given = isinstance(sides.split, ColumnSplit | FileSplit) or sides.given
    limit = max(APART_GIVEN if given else APART, 0.5 + _DEVIATIONS * _deviation(sources))
    best = [names[i] for i in np.argsort(-gains)[:_NAMED] if gains[i] > 0]
    message = f"a model separates held-out from training rows with a ROC AUC of {area:.2f}"
    if area >= limit and isinstance(sides.split, GroupSplit | StratifiedGroupSplit | TimeSplit):
        message += f", mainly by {', '.join(map(repr, best))}: different by design"
        return [AuditResult("different rows", "clean", area, message, "train_test_difference")]
    if area < limit:
        return [AuditResult("different rows", "clean", area, message, "train_test_difference")]
    return [
        AuditResult(
            "different rows",
            "suspicious",
            area,
            f"{message}, mainly by {', '.join(map(repr, best))}",
            "train_test_difference",
            sides.held_out.height,
            columns=tuple(best),
            fix="check that the test rows represent the model's use; exclude columns that "
            "only number or date the rows",
        )
    ]


def _matrix(sides: Sides) -> tuple[Floats, list[str], Integers]:
    """Features and target of both sides, float64 [n, F], and the side of each row (1 held out)."""
    parts = [
        frame[spread_rows(frame.height, _MOST_COMPARED_ROWS)]
        for frame in (sides.train, sides.held_out)
    ]
    sources = np.repeat([0, 1], [part.height for part in parts])
    timed = isinstance(sides.split, TimeSplit)
    known = {name for _, name in split_columns(sides.split)} if timed else set()
    names = [column.name for column in sides.columns if column.name not in known] + [sides.target]
    together = pl.concat([part.select(names) for part in parts])
    columns = [_numbers(together[name]) for name in names]
    return np.stack(columns, axis=1), names, sources


def _numbers(series: pl.Series) -> Floats:
    """Encode for trees without using the side: numbers unchanged, dates as timestamps, words by
    frequency rank."""
    if series.dtype == pl.String:
        labels = count_values(series)["value"].head(_MOST_CODES)
        codes = list(range(len(labels)))
        coded = series.replace_strict(labels, codes, default=_MOST_CODES, return_dtype=pl.Float64)
        return coded.to_numpy()
    if series.dtype == pl.Datetime("us"):
        series = series.cast(pl.Int64)
    return series.cast(pl.Float64).fill_null(np.nan).to_numpy()


def _told_apart(matrix: Floats, sources: Integers) -> tuple[Floats, Floats]:
    """Out-of-fold scores of each row, and the gain of each column."""
    # Imported here to keep runs that only read data free of it.
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
    """Standard deviation of the AUC of uninformative scores."""
    ones, zeros = int(sources.sum()), int((sources == 0).sum())
    return math.sqrt((ones + zeros + 1) / (12 * ones * zeros))
