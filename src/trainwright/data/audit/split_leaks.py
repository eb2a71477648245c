"""Leakage by the split: units on both sides, future training rows.

What the rows share is found as `init` finds it. Whether a model profits from it is not seen in the
rows: a finding is at most suspicious, and tested by experiment when a model is judged.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from trainwright.contract.sections.data.split import (
    GroupSplit,
    StratifiedGroupSplit,
    TimeSplit,
    split_columns,
)
from trainwright.core.formatting import many
from trainwright.data.audit.audit_result import AuditResult, Sides, Verdict
from trainwright.data.base.categories import count_values
from trainwright.data.base.inputs import Integers
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.columns.column_kinds import names_birth
from trainwright.data.statistics.dependence import as_numbers, resemblance

_CROSSING = 0.05
_MOST_ROWS = 50_000


def same_groups(sides: Sides) -> list[AuditResult]:
    """Units with rows on both sides."""
    split = sides.split
    if isinstance(split, TimeSplit):
        message = "not checked: under a time split known groups continue"
        return [AuditResult("same groups", "clean", 0.0, message, "group_overlap")]
    results = []
    by = split.column if isinstance(split, GroupSplit | StratifiedGroupSplit) else ""
    if by:
        share, count = _crossing(sides, by)
        results.append(_overlap("leak" if count else "clean", share, by, count, ""))
    unit = next((one for one in sides.structures if one.entity), None)
    if unit and unit.entity not in (by, sides.target):
        share, count = _crossing(sides, unit.entity)
        if share >= _CROSSING:
            reason = f": {unit.reason}"
            results.append(_overlap("suspicious", share, unit.entity, count, reason))
    if results:
        return results
    message = "no column that names a unit has values on both sides"
    return [AuditResult("same groups", "clean", 0.0, message, "group_overlap")]


def _overlap(verdict: Verdict, share: float, name: str, count: int, reason: str) -> AuditResult:
    message = f"{share:.1%} of the held-out rows have a {name!r} that is also in training{reason}"
    return AuditResult(
        "same groups",
        verdict,
        share,
        message,
        "group_overlap",
        count,
        columns=(name,),
        fix=f"to generalise to new ones: data.split: {{kind: group, column: {name}}}",
    )


def _crossing(sides: Sides, name: str) -> tuple[float, int]:
    """Share and number of held-out rows whose value is also in training."""
    held_out = sides.held_out[name]
    known = to_labels(sides.train[name].drop_nulls().unique()).unique()
    counts = count_values(held_out.drop_nulls())
    count = int(counts["count"].filter(to_labels(counts["value"]).is_in(known.implode())).sum())
    return count / max(1, len(held_out)), count


RESEMBLE = 0.3
"""Lag-1 autocorrelation of the target from which rows in the order of a date are dependent.
Shuffled tables are within 0.03 of 0; elec2 is at 0.7, hourly series above 0.9."""

_FEWEST_MOMENTS, _MOST_NAMED = 10, 5
_QUARTER, _DAY_APART, _MOST_OFFSETS = 900, 14 * 3600, 4


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
    series = next((one for one in sides.structures if one.is_series), None)
    if series and sides.target not in series.clock:
        message = f"{series.reason}, and training rows are later than held-out rows"
        return [_future(1.0, message, sides, series.clock)]
    return [_resembling(sides)]


def _future(number: float, message: str, sides: Sides, clock: tuple[str, ...]) -> AuditResult:
    by = f"column: {clock[0]}" if len(clock) == 1 else f"parts: [{', '.join(clock)}]"
    return AuditResult(
        "future rows",
        "suspicious",
        number,
        message,
        "future_rows",
        sides.train.height,
        (),
        clock,
        fix=f"to predict the future: data.split: {{kind: time, {by}}}",
    )


def _resembling(sides: Sides) -> AuditResult:
    """Lag-1 autocorrelation of the target in the order of the date where it is highest, for files
    in no order. Very many rows are cut to the middle of the order."""
    together = pl.concat([sides.train, sides.held_out])
    target = together[sides.target]
    correlations = {}
    for name in _dates(together):
        order = together[name].rank("ordinal").arg_sort().to_numpy().astype(np.int64)
        correlations[name] = resemblance(as_numbers(target[_middle(order)]))
    if not correlations:
        message = "no column is a time"
        return AuditResult("future rows", "clean", 0.0, message, "future_rows")
    name = max(correlations, key=lambda date: correlations[date])
    number = correlations[name]
    message = f"in the order of {name!r} the target has a lag-1 autocorrelation of {number:.2f}"
    if number < RESEMBLE:
        return AuditResult("future rows", "clean", number, message, "future_rows", 0, (), (name,))
    message += ", and the neighbours of held-out rows are in training"
    return _future(number, message, sides, (name,))


def _middle(rows: Integers) -> Integers:
    start = max(0, len(rows) - _MOST_ROWS) // 2
    return rows[start : start + _MOST_ROWS]


def later_times(sides: Sides) -> list[AuditResult]:
    """Features with timestamps later than the row's own time."""
    split = sides.split
    if not isinstance(split, TimeSplit) or not sides.train[split.moment].dtype.is_temporal():
        message = "not checked: the contract names no time column"
        return [AuditResult("later times", "clean", 0.0, message)]
    results = []
    names = [name for name in sides.of_kind("datetime") if name != split.column]
    for name, late in late_dates(sides.train, names, split.moment).items():
        share = late / sides.train.height
        message = f"{name!r} is later than {split.column!r} in {share:.1%} of the training rows"
        fix = f"add {name} to data.exclude"
        results.append(
            AuditResult("later times", "leak", share, message, "leak", late, (), (name,), fix)
        )
    if results:
        return results
    message = f"no date is later than {split.column!r} of its row"
    return [AuditResult("later times", "clean", 0.0, message)]


def late_dates(frame: pl.DataFrame, names: Iterable[str], moment: str) -> dict[str, int]:
    """Rows in which each of these dates is later than the row's own time, a time zone apart."""
    if moment not in frame.columns or not frame[moment].dtype.is_temporal():
        return {}
    late = {name: int((frame[name] > frame[moment]).sum()) for name in names}
    return {
        name: rows
        for name, rows in late.items()
        if rows and not _is_local_time(frame[name], frame[moment])
    }


def _is_local_time(times: pl.Series, known: pl.Series) -> bool:
    """Is one date the other in another time zone? The offsets are then few multiples of a quarter
    of an hour, up to 14 hours."""
    offsets = (times - known).drop_nulls().dt.total_seconds().unique()
    quarters = bool((offsets % _QUARTER == 0).all())
    return quarters and len(offsets) <= _MOST_OFFSETS and bool((offsets.abs() <= _DAY_APART).all())


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
