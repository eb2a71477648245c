"""Target leakage findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from trainwright.data.base.storage.row_storage import spread_rows
from trainwright.data.columns.column_kinds import ColumnType, Kind
from trainwright.data.quality.examined_data import ColumnView, ExaminedData
from trainwright.data.quality.finding import Finding
from trainwright.data.statistics.dependence import LEAK, MADE_OF, SUSPICIOUS, made_share, told_share
from trainwright.data.statistics.leak_tests import find_leaks, find_suspicions

_MOST_ROWS = 50_000
_FIX = "list the column in data.exclude if it is not known when a prediction is made"


def leaks(data: ExaminedData) -> list[Finding]:
    """Columns that determine the target or derive from it, and columns suspiciously dependent on
    it. More than 50,000 labelled rows are subsampled evenly."""
    if data.task == "none":
        return []
    looks = [look for look in data.telling if look.kind in ("numeric", "categorical", "datetime")]
    target = data.labels if data.task == "classes" else data.of_name(data.target).values
    rows = target.is_not_null().arg_true()
    rows = rows.gather(spread_rows(len(rows), _MOST_ROWS))
    frame = pl.DataFrame([look.values.gather(rows) for look in looks])
    target = target.gather(rows)
    columns = [ColumnType(look.name, _kind(look), "", 0, 0, "") for look in looks]
    found = [_leak(leak.columns, leak.message) for leak in find_leaks(frame, columns, target)]
    alone = {finding.columns for finding in found}
    honest = [column for column in columns if (column.name,) not in alone]
    suspicions = [
        _suspicion(each.columns, each.message) for each in find_suspicions(frame, honest, target)
    ]
    said = {name for finding in (*found, *suspicions) for name in finding.columns}
    shares = _shares(frame, [column for column in columns if column.kind != "datetime"], target)
    return [*found, *suspicions, *(one for one in shares if not said.intersection(one.columns))]


def _shares(
    frame: pl.DataFrame, columns: Iterable[ColumnType], target: pl.Series
) -> Iterator[Finding]:
    """Features with a strong non-linear dependence with the target, in either direction."""
    for column in columns:
        name, values = column.name, frame[column.name]
        share = told_share(values, target)
        if share > SUSPICIOUS:
            found = _leak if share > LEAK else _suspicion
            yield found((name,), f"{name!r} alone explains {share:.2%} of the target")
        elif (share := made_share(values, target)) > MADE_OF:
            yield _leak((name,), f"{name!r} is {share:.2%} explained by the target: target leakage")


def _kind(look: ColumnView) -> Kind:
    match look.kind:
        case "numeric" | "datetime":
            return look.kind
        case _:
            return "categorical"


def _leak(columns: tuple[str, ...], message: str) -> Finding:
    return Finding("leak", "error", message, len(columns), columns=columns, fix=_FIX)


def _suspicion(columns: tuple[str, ...], message: str) -> Finding:
    return Finding(
        "suspicious_feature", "warning", message, len(columns), columns=columns, fix=_FIX
    )
