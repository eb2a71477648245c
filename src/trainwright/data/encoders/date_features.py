"""Date features: calendar parts and cyclical encodings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, final

import polars as pl

from trainwright.data.base.storage.row_storage import slices_of

_PARTS = ("year", "month", "day", "weekday", "hour", "minute")
_PERIODS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"month": (1, 12), "day": (1, 31), "weekday": (1, 7), "hour": (0, 24), "minute": (0, 60)}
)
"""The first value of a part that comes again, and after how many values it does."""


@final
@dataclass(frozen=True, slots=True)
class DatePart:
    """One number of a date: `dteday` and `month` give the column `dteday (month)`; `month sin` and
    `month cos` are sin and cos of 2 pi (month - 1) / 12."""

    column: str
    part: str

    @property
    def name(self) -> str:
        """The name of the numeric column."""
        return f"{self.column} ({self.part})"

    def values(self, frame: pl.DataFrame) -> pl.Series:
        """The number of each row; null where the date is missing."""
        part, _, form = self.part.partition(" ")
        numbers = _part(frame[self.column], part)
        if not form:
            return numbers
        first, period = _PERIODS[part]
        angle = (numbers - first) * (2 * math.pi / period)
        return angle.sin() if form == "sin" else angle.cos()


def fit_dates(
    train: pl.DataFrame, columns: list[str], form: Literal["parts", "cyclic"]
) -> tuple[DatePart, ...]:
    """The parts of each date column that differ between training rows, in their form."""
    found: list[DatePart] = []
    for column in columns:
        seen: dict[str, set[int]] = {part: set() for part in _PARTS}
        for rows in slices_of(train.select(column)):
            for part, values in seen.items():
                values.update(_part(rows[column], part).drop_nulls().unique().to_list())
        for part in _PARTS:
            if len(seen[part]) < 2:
                continue
            turns = form == "cyclic" and part in _PERIODS
            names = (f"{part} sin", f"{part} cos") if turns else (part,)
            found += [DatePart(column, name) for name in names]
    return tuple(found)


def _part(dates: pl.Series, part: str) -> pl.Series:
    times = dates.dt
    match part:
        case "year":
            return times.year()
        case "month":
            return times.month()
        case "day":
            return times.day()
        case "weekday":
            return times.weekday()
        case "hour":
            return times.hour()
        case "minute":
            return times.minute()
        case _:
            raise AssertionError(f"no part of a date: {part}")
