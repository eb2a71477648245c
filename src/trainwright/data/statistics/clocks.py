"""Columns that say when a row was: dates, years, parts of a time, numbered steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.split import MOMENT_COLUMN, TimeSplit
from trainwright.data.base.row_storage import IN_MEMORY
from trainwright.data.columns.column_kinds import name_tokens, names_birth
from trainwright.data.split.hidden_columns import with_moments
from trainwright.data.statistics.coded_column import CodedColumn

TIME_PARTS = (
    frozenset({"year", "yr"}),
    frozenset({"quarter", "qtr"}),
    frozenset({"month", "mnth", "mon"}),
    frozenset({"week", "wk"}),
    frozenset({"day", "dd", "date"}),
    frozenset({"hour", "hr", "hh"}),
    frozenset({"minute", "min", "mm"}),
    frozenset({"second", "sec", "ss"}),
)
"""Names of the parts of a time, the largest first."""

_LARGEST = (2200, 4, 12, 53, 366, 24, 60, 61)
_YEARS = (1000, 2200)
_DATES = frozenset({"date", "dates"})
_TIME_WORDS = _DATES | {"time", "t", "period", "wave", "visit", "occasion", "trend"}
_TIME_WORDS = _TIME_WORDS.union(*TIME_PARTS)
_EVEN, _MOSTLY_EVEN = 0.02, 0.9


@final
@dataclass(frozen=True, slots=True)
class RowClock:
    """Columns that are a time together, as one column of codes in temporal order."""

    names: tuple[str, ...]
    values: CodedColumn
    is_calendar: bool


def find_clocks(frame: pl.DataFrame, columns: Sequence[CodedColumn]) -> Iterator[RowClock]:
    """Dates, times in parts, years, and whole numbers named like a time; calendar times first."""
    free = [column for column in columns if not names_birth(column.name)]
    dates = [column for column in free if column.values.dtype == pl.Datetime("us")]
    present = [column for column in dates if not column.values.null_count()]
    # Of the start and the end of a poll, the end is when its result was known.
    for column in sorted(present, key=lambda date: -date.values.to_physical().to_numpy().mean()):
        yield RowClock((column.name,), column, is_calendar=True)
    if len(parts := _find_parts(free)) > 1:
        split = TimeSplit(kind="time", parts=parts)
        moments = with_moments({"train": frame}, split, IN_MEMORY)["train"][MOMENT_COLUMN]
        has_year = bool(name_tokens(parts[0]) & TIME_PARTS[0])
        yield RowClock(parts, CodedColumn(moments, ", ".join(parts)), is_calendar=has_year)
    for column in free:
        if _is_year(column):
            yield RowClock((column.name,), column, is_calendar=True)
    for column in free:
        if time_words(column.name) and _is_numeric(column) and not _is_year(column):
            yield RowClock((column.name,), column, is_calendar=False)


def time_words(name: str) -> frozenset[str]:
    """The words of a name that say time; `t1` is the first of several quantities."""
    words = name_tokens(name)
    return words & _TIME_WORDS if words != {"t", "1"} else frozenset()


def _is_numeric(column: CodedColumn) -> bool:
    return column.values.dtype.is_numeric() and not column.values.null_count()


def _is_year(column: CodedColumn) -> bool:
    """Is a column named like a year or date, or like a time with the values of years?"""
    words = time_words(column.name)
    if not words or not _is_numeric(column):
        return False
    if words & _DATES:
        return column.is_whole
    low, high = float(column.values.to_numpy().min()), float(column.values.to_numpy().max())
    if _YEARS[0] <= low and high <= _YEARS[1] and high - low >= 1:
        return bool(words & TIME_PARTS[0]) or column.distinct == len(column.values)
    return bool(words & TIME_PARTS[0]) and column.is_whole and low > 30 and high < 100


def time_parts(frame: pl.DataFrame) -> tuple[str, ...]:
    """Columns of typed rows that are a time together, the year first; none if there is none."""
    columns = [CodedColumn(values) for values in frame.get_columns()]
    parts = _find_parts([column for column in columns if not names_birth(column.name)])
    return parts if parts and name_tokens(parts[0]) & TIME_PARTS[0] else ()


def _find_parts(columns: Sequence[CodedColumn]) -> tuple[str, ...]:
    """Parts of one time, the largest first: `MonthSold` goes with `YearSold`, not `YearBuilt`."""
    words = frozenset().union(*TIME_PARTS)
    of_times: dict[frozenset[str], list[CodedColumn]] = {}
    for column in columns:
        if (tokens := name_tokens(column.name)) & words:
            of_times.setdefault(tokens - words, []).append(column)
    longest: tuple[str, ...] = ()
    for parts_of_time in of_times.values():
        parts: list[str] = []
        for part, largest in zip(TIME_PARTS, _LARGEST, strict=True):
            named = [
                column.name
                for column in parts_of_time
                if name_tokens(column.name) & part and _is_part(column, largest)
            ]
            parts += [name for name in named[:1] if name not in parts]
        longest = max(longest, tuple(parts), key=len)
    return longest


def _is_part(column: CodedColumn, largest: int) -> bool:
    if column.values.dtype == pl.Datetime("us"):
        return not column.values.null_count()
    if not _is_numeric(column) or not column.is_whole:
        return False
    numbers = column.values.to_numpy()
    low, high = float(numbers.min()), float(numbers.max())
    varies = low < high or largest == _LARGEST[0]
    return varies and low >= 0 and high <= largest


def has_two_digits(clock: RowClock) -> bool:
    """Years such as 78: those of many rows may be a property, as of cars."""
    values = clock.values.values
    return values.dtype.is_numeric() and float(values.to_numpy().max()) < _YEARS[0]


def is_regular(column: CodedColumn) -> bool:
    """Are the values evenly spaced, except for gaps of whole steps?"""
    steps = np.abs(np.diff(column.values.cast(pl.Float64).to_numpy()))
    usual = float(np.median(steps))
    if not usual:
        return False
    multiples = steps / usual
    whole = np.abs(multiples - np.round(multiples)) <= _EVEN
    return bool(whole.all()) and float((np.round(multiples) == 1).mean()) >= _MOSTLY_EVEN
