"""Temporal leakage: future training rows, and columns filled after the prediction time."""

from __future__ import annotations

import numpy as np
import polars as pl

from trainwright.contract.sections.data.split import (
    GroupSplit,
    StratifiedGroupSplit,
    TimeSplit,
    split_columns,
)
from trainwright.core.formatting import many
from trainwright.data.audit.audit_result import AuditResult, Verdict
from trainwright.data.audit.split_sides import Sides
from trainwright.data.base.table import Floats, Integers
from trainwright.data.columns.column_kinds import names_birth
from trainwright.data.statistics.dependence import as_numbers

RESEMBLE = 0.3
"""Lag-1 autocorrelation of the target from which rows in file order are dependent. Shuffled tables
are within 0.03 of 0; elec2 is at 0.7, hourly series above 0.9."""

_FEWEST_MOMENTS = 10
_FEWEST_CHANGES = 200
_MOST_NAMED = 5
_MOST_ROWS = 50_000
_QUARTER, _DAY_APART, _MOST_OFFSETS = 900, 14 * 3600, 4
_FILE = ""
"""Name of the file order; other orders are named by their column."""


def future_rows(sides: Sides) -> list[AuditResult]:
    """Time split: training rows later than a held-out row. Other splits: serial dependence of rows
    in time or file order."""
    split = sides.split
    if isinstance(split, TimeSplit):
        first = sides.held_out[split.moment].min()
        late = int((sides.train[split.moment] >= first).sum())
        rows = many(late, "training row is", "training rows are")
        message = f"{rows} not older than the oldest held-out row"
        verdict: Verdict = "leak" if late else "clean"
        named = tuple(name for _, name in split_columns(split))
        return [
            AuditResult(
                "future rows", verdict, float(late), message, "future_rows", late, (), named
            )
        ]
    if isinstance(split, GroupSplit | StratifiedGroupSplit) or sides.given:
        message = "not checked: the split is not by rows"
        return [AuditResult("future rows", "clean", 0.0, message, "future_rows")]
    return [_resembling(sides)]


def _resembling(sides: Sides) -> AuditResult:
    """Lag-1 autocorrelation of the target in the order where it is highest: file order, or that of
    a date column. Very many rows are cut to the middle of the order."""
    together = _together(sides)
    orders = {_FILE: np.argsort(_places(sides), kind="stable")}
    for name in _dates(together):
        orders[name] = together[name].rank("ordinal").arg_sort().to_numpy().astype(np.int64)
    target = together[sides.target]
    found = {name: resemblance(as_numbers(target[_middle(rows)])) for name, rows in orders.items()}
    dates = [order for order in found if order != _FILE and found[order] >= RESEMBLE]
    # A date is preferred to file order, which may be sorted by anything.
    name = max(dates or found, key=lambda order: found[order])
    number = found[name]
    columns = () if name == _FILE else (name,)
    shown = "the file" if name == _FILE else repr(name)
    message = f"in the order of {shown} the target has a lag-1 autocorrelation of {number:.2f}"
    if number < RESEMBLE:
        return AuditResult("future rows", "clean", number, message, "future_rows", 0, (), columns)
    return AuditResult(
        "future rows",
        "suspicious",
        number,
        message + ", and the neighbours of held-out rows are in training",
        "future_rows",
        sides.train.height,
        (),
        columns,
        fix="to forecast: data.split: {kind: time, column: ...}; for related rows: "
        "{kind: group, column: ...}",
    )


def _middle(rows: Integers) -> Integers:
    start = max(0, len(rows) - _MOST_ROWS) // 2
    return rows[start : start + _MOST_ROWS]


def later_times(sides: Sides) -> list[AuditResult]:
    """Features with timestamps later than the row's own time."""
    split = sides.split
    if not isinstance(split, TimeSplit) or not sides.train[split.moment].dtype.is_temporal():
        message = "not checked: the contract names no time column"
        return [AuditResult("later times", "clean", 0.0, message)]
    found: list[AuditResult] = []
    known = sides.train[split.moment]
    for name in sides.of_kind("datetime"):
        if name == split.column:
            continue
        late = int((sides.train[name] > known).sum())
        if late and not _is_local_time(sides.train[name], known):
            share = late / sides.train.height
            message = f"{name!r} is later than {split.column!r} in {share:.1%} of the training rows"
            fix = f"add {name} to data.exclude"
            found.append(
                AuditResult("later times", "leak", share, message, "leak", late, (), (name,), fix)
            )
    if found:
        return found
    message = f"no date is later than {split.column!r} of its row"
    return [AuditResult("later times", "clean", 0.0, message)]


def _is_local_time(times: pl.Series, known: pl.Series) -> bool:
    """Is one date the other in another time zone? The offsets are then few multiples of a quarter
    of an hour, up to 14 hours."""
    offsets = (times - known).drop_nulls().dt.total_seconds().unique()
    quarters = bool((offsets % _QUARTER == 0).all())
    return quarters and len(offsets) <= _MOST_OFFSETS and bool((offsets.abs() <= _DAY_APART).all())


def _together(sides: Sides) -> pl.DataFrame:
    held_out = set(sides.held_out.columns)
    names = [name for name in sides.train.columns if name in held_out]
    return pl.concat([sides.train.select(names), sides.held_out.select(names)])


def _places(sides: Sides) -> Integers:
    return np.concatenate([sides.train_places, sides.places])


def _dates(frame: pl.DataFrame) -> list[str]:
    """Date columns that could order the rows, except dates of birth."""
    found = [
        series.name
        for series in frame.get_columns()
        if series.dtype == pl.Datetime("us")
        and not series.null_count()
        and not names_birth(series.name)
        and series.n_unique() >= _FEWEST_MOMENTS
    ]
    return found[:_MOST_NAMED]


def resemblance(values: Floats) -> float:
    """Mean lag-1 autocorrelation of the target's columns [N, C]; 0 for rows sorted by the target,
    where it is meaningless."""
    if len(values) < _FEWEST_MOMENTS:
        return 0.0
    changes = int((values[1:] != values[:-1]).any(axis=1).sum())
    steps = np.diff(values[:, 0])
    if (
        changes < min(_FEWEST_CHANGES, 2 * values.shape[1])
        or (steps >= 0).all()
        or (steps <= 0).all()
    ):
        return 0.0
    centered = values - values.mean(axis=0)
    spread = (centered**2).sum()
    return float((centered[1:] * centered[:-1]).sum() / spread) if spread else 0.0
