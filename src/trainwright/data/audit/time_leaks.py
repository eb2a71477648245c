"""The future in training, and columns that are filled after the target's moment."""

from __future__ import annotations

import numpy as np
import polars as pl

from trainwright.contract.data import GroupSplit, StratifiedGroupSplit, TimeSplit, split_columns
from trainwright.core.formatting import many
from trainwright.data.audit.audit_result import AuditResult, Sides, Verdict
from trainwright.data.base.table import Floats, Integers
from trainwright.data.statistics.dependence import as_numbers

RESEMBLE = 0.3
"""The correlation of the target with that of the row before it, from which rows in file order
resemble each other. Shuffled tables are within 0.03 of 0; elec2 is at 0.7, hourly series above
0.9."""

_FEWEST_MOMENTS = 10
_FEWEST_CHANGES = 200
_MOST_NAMED = 5
_MOST_ROWS = 50_000
_QUARTER, _DAY_APART, _MOST_OFFSETS = 900, 14 * 3600, 4
_FILE = ""
"""The order of the rows in the data; the others have the name of a column."""


def future_rows(sides: Sides) -> list[AuditResult]:
    """Training rows that are later than a held-out row, where the split is by time; elsewhere rows
    in the order of time, or of the file, that resemble the ones beside them."""
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
        message = "not looked for: the split is not by rows"
        return [AuditResult("future rows", "clean", 0.0, message, "future_rows")]
    return [_resembling(sides)]


def _resembling(sides: Sides) -> AuditResult:
    """How the target resembles that of the row before, in the order in which it does most: that of
    the file, or of a column of dates. Of very many rows those in the middle of the order."""
    together = _together(sides)
    orders = {_FILE: np.argsort(_places(sides), kind="stable")}
    for name in _dates(together):
        orders[name] = together[name].rank("ordinal").arg_sort().to_numpy().astype(np.int64)
    target = together[sides.target]
    found = {name: resemblance(as_numbers(target[_middle(rows)])) for name, rows in orders.items()}
    dates = [order for order in found if order != _FILE and found[order] >= RESEMBLE]
    # A date says more than the order of a file, which may be sorted by anything.
    name = max(dates or found, key=lambda order: found[order])
    number = found[name]
    columns = () if name == _FILE else (name,)
    shown = "the file" if name == _FILE else repr(name)
    message = (
        f"in the order of {shown} the target has a correlation of {number:.2f} with the row before"
    )
    if number < RESEMBLE:
        return AuditResult("future rows", "clean", number, message, "future_rows", 0, (), columns)
    return AuditResult(
        "future rows",
        "suspicious",
        number,
        message + ", and rows on both sides of a held-out row train",
        "future_rows",
        sides.train.height,
        (),
        columns,
        fix="if the model foretells: data.split: {kind: time, column: ...}; if rows belong "
        "together: {kind: group, column: ...}",
    )


def _middle(rows: Integers) -> Integers:
    start = max(0, len(rows) - _MOST_ROWS) // 2
    return rows[start : start + _MOST_ROWS]


def later_times(sides: Sides) -> list[AuditResult]:
    """Features with times later than the moment at which the row was known."""
    split = sides.split
    if not isinstance(split, TimeSplit) or not sides.train[split.moment].dtype.is_temporal():
        message = "not looked for: the contract names no moment at which a row was known"
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
    """Whether a date is the other one on the clock of another zone: always by few of the offsets
    that zones have, multiples of a quarter of an hour up to 14 hours."""
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
    """Columns of dates that could order the rows."""
    found = [
        series.name
        for series in frame.get_columns()
        if series.dtype == pl.Datetime("us")
        and not series.null_count()
        and series.n_unique() >= _FEWEST_MOMENTS
    ]
    return found[:_MOST_NAMED]


def resemblance(values: Floats) -> float:
    """The mean correlation of the target's columns [N, C] with those of the row before; 0 for rows
    that are sorted by the target, which says nothing of them."""
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
