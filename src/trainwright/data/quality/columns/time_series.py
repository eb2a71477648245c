"""Time-series faults: stuck values and missing timestamps."""

from __future__ import annotations

import numpy as np
import polars as pl

from trainwright.core.formatting import many
from trainwright.data.base.inputs import Floats
from trainwright.data.columns.column_kinds import name_tokens
from trainwright.data.columns.identifiers import CLOCKS
from trainwright.data.quality.columns.useless_columns import correlations
from trainwright.data.quality.examined_data import HOURS, ColumnView, ExaminedData
from trainwright.data.quality.finding import Finding

_DISTINCT = 20
_LONG = 10
_TIMES_LONGER = 3.0
_TOGETHER = 0.95
_MOVES = 5
_REGULAR = 0.8
_FEWEST_MOMENTS = 20
_ROUNDED = 0.01
_PARTS_OF_A_DAY = HOURS | {"minute", "second", "period"}

_SECONDS_PER_HOUR = 3600
_WORKDAYS = 5


def stuck(data: ExaminedData) -> list[Finding]:
    """Stuck values in a series: a run far longer than the others, from a frozen sensor or a value
    not yet recorded. Without a clock, a file may be sorted by anything.

    The longest run of one value has at least 10 rows and more than 3 times the 99.9th percentile of
    the run lengths; unordered rows hardly have such a run, whatever the value frequencies.
    """
    found = []
    for look in data.looks if _is_series(data) else ():
        if look.kind != "numeric" or look.name in data.left_out:
            continue
        if look.values.n_unique() < _DISTINCT:
            continue
        runs = look.values.rle()
        lengths = runs.struct.field("len").to_numpy().astype(np.int64)
        least = max(_LONG, _TIMES_LONGER * _usual(lengths))
        values = runs.struct.field("value").cast(pl.Float64).fill_null(np.nan).to_numpy()
        # A pile at the largest value is censoring.
        long = np.flatnonzero((lengths > least) & (values != np.nanmax(values)))
        long = long[np.isfinite(values[long])]
        starts = np.cumsum(lengths) - lengths
        long = long[[not _goes_with_a_word(data, starts[i], starts[i] + lengths[i]) for i in long]]
        if not len(long):
            continue
        rows = np.concatenate([np.arange(starts[i], starts[i] + lengths[i]) for i in long])
        longest = int(long[np.argmax(lengths[long])])
        found.append(
            Finding(
                "stuck",
                "warning",
                f"{look.name!r} stays at {values[longest]:g} for {lengths[longest]:,} rows from "
                f"row {data.rows[starts[longest]]:,} on; nearly all other runs are of at most "
                f"{_usual(lengths):.0f}",
                len(rows),
                data.places(rows),
                (look.name,),
                "check whether it was measured then; exclude these rows, or use a time split",
            )
        )
    return found


def frozen(data: ExaminedData) -> list[Finding]:
    """Values of a series frozen for at least 10 rows while a column correlated beyond 0.95 takes at
    least 5 distinct values."""
    looks = [
        look
        for look in data.telling
        if look.kind == "numeric" and look.values.n_unique() >= _DISTINCT
    ]
    if len(looks) < 2 or len(data) < 5 * _LONG or not _is_series(data):
        return []
    related = correlations(data, looks) - np.eye(len(looks))
    found = []
    for at, look in enumerate(looks):
        partner = looks[int(np.argmax(np.abs(related[at])))]
        if np.abs(related[at]).max() < _TOGETHER:
            continue
        numbers, beside = look.numbers, partner.numbers
        lengths = look.values.rle().struct.field("len").to_numpy().astype(np.int64)
        starts = np.cumsum(lengths) - lengths
        groups = [
            np.arange(starts[i], starts[i] + lengths[i]) for i in np.flatnonzero(lengths >= _LONG)
        ]
        moving = [
            rows
            for rows in groups
            if np.isfinite(numbers[rows[0]]) and len(np.unique(beside[rows])) >= _MOVES
        ]
        if not moving:
            continue
        longest = max(moving, key=len)
        rows = np.concatenate(moving)
        text = (
            f"{look.name!r} stays at {numbers[longest[0]]:g} for {len(longest):,} rows from "
            f"row {data.rows[longest[0]]:,} on, while its correlate {partner.name!r} changes"
        )
        fix = "exclude these rows, or set the value to missing there"
        found.append(
            Finding("stuck", "warning", text, len(rows), data.places(rows), (look.name,), fix)
        )
    return found


def _goes_with_a_word(data: ExaminedData, start: int, stop: int) -> bool:
    """Does a column of words have a value in these rows that neither neighbour has: a product or a
    place that the number belongs to?"""
    for look in data.looks:
        if look.kind != "categorical" or look.values[start:stop].n_unique() > 1:
            continue
        neighbours = pl.concat(
            [look.values[max(0, start - 1) : start], look.values[stop : stop + 1]]
        )
        if not neighbours.is_in(look.values[start:stop].implode()).any():
            return True
    return False


def _is_series(data: ExaminedData) -> bool:
    """Do the rows lie in the order of a clock: a date, or a number named as a time, that never
    turns back, or parts of a day that follow each other?"""
    clocks = (
        look.values.drop_nulls()
        for look in data.looks
        if look.kind == "datetime" or (look.kind == "numeric" and name_tokens(look.name) & CLOCKS)
    )
    days = (look for look in data.looks if name_tokens(look.name) & _PARTS_OF_A_DAY)
    return any(_goes_round(look.numbers) for look in days if look.kind == "numeric") or any(
        clock.n_unique() >= _FEWEST_MOMENTS
        and (clock.is_sorted() or clock.is_sorted(descending=True))
        for clock in clocks
    )


def _goes_round(times: Floats) -> bool:
    """Do times rise by one step from nearly every row to the next, and begin anew?"""
    steps = np.diff(times)
    if len(steps) < _FEWEST_MOMENTS:
        return False
    usual = float(np.nanmedian(steps))
    even = np.abs(steps - usual) <= _ROUNDED * usual
    return usual > 0 and _REGULAR <= float(even.mean()) < 1


def _usual(lengths: np.ndarray) -> float:
    """99.9th percentile of the run lengths; of fewer runs the second longest."""
    rank = max(1, int(np.ceil(0.001 * len(lengths))))
    ordered = np.sort(lengths)
    return float(ordered[-1 - rank]) if len(ordered) > rank else float(ordered[0])


def time_gaps(data: ExaminedData) -> list[Finding]:
    """Missing timestamps in an otherwise regular series."""
    found = []
    for look in data.looks:
        if look.kind != "datetime":
            continue
        name, moments = _moments(data, look)
        times = np.unique(moments[np.isfinite(moments)])
        if len(times) < _FEWEST_MOMENTS:
            continue
        steps = np.diff(times)
        sizes, counts = np.unique(steps, return_counts=True)
        step = float(sizes[np.argmax(counts)])
        if counts.max() < _REGULAR * len(steps):
            continue
        absent = int(np.round((steps[steps > step] / step) - 1).sum())
        if not absent:
            continue
        after = int(np.argmax(steps))
        rows = np.flatnonzero(np.isin(moments, times[1:][steps > step]))
        found.append(
            Finding(
                "time_gaps",
                "warning" if _is_a_series(moments, times) else "info",
                f"{name}, which goes in steps of {step:g} s, lacks {many(absent, 'timestamp')}; "
                f"the longest gap has {round(steps[after] / step) - 1:,}",
                absent,
                data.places(rows),
                (look.name,),
                "row-based lags and windows are wrong there: add the rows, or use the time itself",
            )
        )
    return found


def _is_a_series(moments: np.ndarray, times: np.ndarray) -> bool:
    """Are the timestamps unique and ascending, with gaps other than weekends?"""
    present = moments[np.isfinite(moments)]
    if len(present) != len(times) or not (np.diff(present) > 0).all():
        return False
    days = times / (24 * _SECONDS_PER_HOUR)
    # The first of January 1970 was a Thursday.
    weekdays = np.unique(np.floor(days + 3) % 7)
    return len(weekdays) > _WORKDAYS


def _moments(data: ExaminedData, look: ColumnView) -> tuple[str, np.ndarray]:
    """Timestamps [N] in seconds; a date with an hour column is combined with it."""
    seconds = look.values.dt.epoch("us").cast(pl.Float64).fill_null(np.nan).to_numpy() / 1e6
    hours = [
        other for other in data.looks if other.name.lower() in HOURS and other.kind == "numeric"
    ]
    dates = bool((seconds[np.isfinite(seconds)] % (24 * _SECONDS_PER_HOUR) == 0).all())
    if not hours or not dates:
        return repr(look.name), seconds
    return (
        f"{look.name!r} with {hours[0].name!r}",
        seconds + hours[0].numbers * _SECONDS_PER_HOUR,
    )
