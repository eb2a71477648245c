"""Target leakage by features: alone, combined, or derived from the target."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from trainwright.core.formatting import many
from trainwright.data.audit.audit_result import AuditResult, Test
from trainwright.data.audit.split_sides import Sides
from trainwright.data.base.storage.row_storage import spread_rows
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.statistics.dependence import LEAK, MADE_OF, SUSPICIOUS, made_share, told_share
from trainwright.data.statistics.leak_tests import find_leaks, find_suspicions

_MOST_ROWS = 50_000
_FIX = "list the column in data.exclude if it is not known when a prediction is made"


def tells_the_target(sides: Sides) -> list[AuditResult]:
    """Features that determine the target, alone or in an exact linear combination. Under a time
    split a lag of the target is at most suspicious."""
    lagged = _lagged(sides)
    sides = sides.without_lags
    train = sides.train[spread_rows(sides.train.height, _MOST_ROWS)]
    target = train[sides.target]
    found = lagged
    for leak in find_leaks(train, sides.columns, target):
        found.append(_leak(leak.columns, leak.message, 1.0))
    known = {name for one in found for name in one.columns}
    shares = {
        column.name: told_share(train[column.name], target)
        for column in sides.columns
        if column.name not in known and column.kind in ("numeric", "categorical")
    }
    for name, share in shares.items():
        if share > LEAK:
            found.append(
                _leak((name,), f"{name!r} alone explains {share:.2%} of the target", share)
            )
    known |= {name for one in found for name in one.columns}
    found += _suspicions(train, sides.columns, target, shares, known)
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
    for column in sides.columns:
        if column.kind not in ("numeric", "categorical"):
            continue
        share = made_share(train[column.name], target)
        most = max(most, share)
        if share > MADE_OF:
            message = f"{column.name!r} is {share:.2%} explained by the target: target leakage"
            found.append(_leak((column.name,), message, share, "function of the target"))
    if found:
        return found
    message = (
        f"no feature derives from the target, which explains at most {max(most, 0.0):.1%} of one"
    )
    return [AuditResult("function of the target", "clean", most, message)]


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
                fix=f"{_FIX}; compare the model with the naive forecast {name!r}",
            )
        )
    return found


def _leak(
    columns: tuple[str, ...], message: str, number: float, test: Test = "tells the target"
) -> AuditResult:
    return AuditResult(
        test, "leak", number, message, "leak", len(columns), columns=columns, fix=_FIX
    )


def _suspicions(
    train: pl.DataFrame,
    columns: Sequence[ColumnType],
    target: pl.Series,
    shares: dict[str, float],
    known: set[str],
) -> list[AuditResult]:
    honest = [column for column in columns if column.name not in known]
    said = {
        one.columns: (abs(one.number), one.message)
        for one in find_suspicions(train, honest, target)
    }
    for name, share in shares.items():
        if share > SUSPICIOUS and name not in known and (name,) not in said:
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
            fix=_FIX,
        )
        for names, (number, message) in said.items()
    ]
