"""Features of time: calendar parts of dates, lags and rolling-window statistics by group.

A row at time t sees the rows of its group whose time is below t, in the order (time, place in the
file). Each number is computed from these rows alone, never as a difference of running sums, so
that no bit of it can depend on a later row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, final

import numpy as np
import polars as pl

from trainwright.contract.key_paths import as_key
from trainwright.contract.sections.data.table_data import History as HistorySection
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json
from trainwright.data.base.inputs import Floats, Integers, PartName
from trainwright.data.base.messages import some
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.base.row_storage import slices_of
from trainwright.data.columns.column_kinds import ColumnType

_PARTS = ("year", "month", "day", "weekday", "hour", "minute")
_PERIODS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"month": (1, 12), "day": (1, 31), "weekday": (1, 7), "hour": (0, 24), "minute": (0, 60)}
)
"""The first value of a part that comes again, and after how many values it does."""

_PATH = "data.features.history"


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


@final
@dataclass(frozen=True, slots=True)
class LagFeatures:
    """The past of rows as numeric columns, as one section says, or none. `types` are the columns it
    reads, as new rows are typed."""

    sections: tuple[HistorySection, ...]
    types: tuple[ColumnType, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The numeric columns."""
        return tuple(name for section in self.sections for name in _names(section))

    @property
    def origins(self) -> tuple[str, ...]:
        """The column whose past each of `names` is."""
        return tuple(
            column
            for section in self.sections
            for column in section.columns
            for _ in range(len(_names(section)) // len(section.columns))
        )

    def added(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows with their past, as it lies in these rows.

        Raises:
            DataMistake: no row has a past, so that the file cannot be the one that was meant.
        """
        for section in self.sections:
            columns = _past(frame, section)
            if frame.height and not any(map(_says_something, columns, _statistics(section))):
                raise _no_past(section)
            frame = frame.with_columns(columns)
        return frame

    def added_to(self, frames: Mapping[PartName, pl.DataFrame]) -> dict[PartName, pl.DataFrame]:
        """The rows of files with their past, which may lie in the file before."""
        parts = dict(frames)
        for section in self.sections:
            whole = pl.concat([_needed(frame, section) for frame in parts.values()])
            past = pl.DataFrame(_past(whole, section))
            start = 0
            for name, frame in parts.items():
                parts[name] = frame.with_columns(past[start : start + frame.height].get_columns())
                start += frame.height
        return parts

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {
            "sections": [section.model_dump(mode="json") for section in self.sections],
            "types": [column.to_json() for column in self.types],
        }

    @classmethod
    def from_json(cls, value: Json) -> LagFeatures:
        """The history that `to_json` wrote."""
        sections = [
            HistorySection.model_validate(section, strict=False) for section in value["sections"]
        ]
        return cls(tuple(sections), tuple(map(ColumnType.from_json, value["types"])))


NO_HISTORY = LagFeatures((), ())


def fit_history(
    section: HistorySection, train: pl.DataFrame, columns: tuple[ColumnType, ...], target: str
) -> LagFeatures:
    """How new rows are read for it. `target` is the one of a regression, else empty.

    Raises:
        DataMistake: a column is not there, not one of numbers, or has a name that is needed.
    """
    known = {column.name: column for column in columns}
    if target:
        known[target] = ColumnType(target, "numeric", "the target", 0, 0, "")
    types = [_typed(known, train, section.time, f"{_PATH}.time")]
    if section.group:
        types.append(replace(_known(known, section.group, f"{_PATH}.group"), kind="categorical"))
    for at, name in enumerate(section.columns):
        column = _known(known, name, f"{_PATH}.columns.{at}")
        if column.kind != "numeric":
            raise DataMistake(
                Problem(
                    f"the past of {name!r} is no number",
                    path=f"{_PATH}.columns.{at}",
                    found=f"a {column.kind} column",
                    expected="numeric columns",
                    fix=f"remove it, or set data.columns.{as_key(name)}.kind to numeric",
                )
            )
        types.append(column)
    if taken := sorted(set(_names(section)) & set(train.columns)):
        raise DataMistake(
            Problem(
                "the data has columns with the names that the past gets",
                path=_PATH,
                found=some(taken),
                fix="rename them in the file, or leave out the lags and windows that they hold",
            )
        )
    return LagFeatures((section,), tuple(types))


def _known(known: Mapping[str, ColumnType], name: str, path: str) -> ColumnType:
    if name in known:
        return known[name]
    raise DataMistake(
        Problem(
            f"there is no column {name!r} whose past could be used",
            path=path,
            found=name,
            expected=f"one of: {some(sorted(known), 12)}",
            fix="name one of the columns; the target only of a regression",
        )
    )


def _typed(
    known: Mapping[str, ColumnType], train: pl.DataFrame, name: str, path: str
) -> ColumnType:
    """The time as it was read, also where it is no feature."""
    column = _known(known, name, path)
    is_number = train[name].dtype.is_numeric()
    return replace(column, kind="numeric" if is_number else "datetime")


def _needed(frame: pl.DataFrame, section: HistorySection) -> pl.DataFrame:
    """The columns that are looked at. A group is a label: the names of one file may be numbers."""
    needed = frame.select(list(dict.fromkeys([section.time, *section.columns])))
    if section.group and section.group not in needed.columns:
        needed = needed.with_columns(to_labels(frame[section.group]))
    return needed


def _names(section: HistorySection) -> list[str]:
    names: list[str] = []
    for column in section.columns:
        names += [f"{column} (lag {lag})" for lag in section.lags]
        names += [
            f"{column} ({statistic} of {window})"
            for window in section.windows
            for statistic in section.statistics
        ]
    return names


def _statistics(section: HistorySection) -> list[str]:
    """What each of `_names` is."""
    of_a_column = ["lag"] * len(section.lags) + list(section.statistics) * len(section.windows)
    return of_a_column * len(section.columns)


def _says_something(past: pl.Series, statistic: str) -> bool:
    """Whether a row has a past: without one a count is 0, and everything else is missing."""
    return bool((past != 0).any()) if statistic == "count" else past.null_count() < len(past)


def _past(frame: pl.DataFrame, section: HistorySection) -> list[pl.Series]:
    """The columns of `_names`, Float64 [N], null where there is no past."""
    order, first, begin = _places(frame, section)
    found: list[Floats] = []
    for name in section.columns:
        values = frame[name].cast(pl.Float64).fill_null(np.nan).to_numpy()[order]
        found += [_at(values, first - lag, begin) for lag in section.lags]
        end = first - section.horizon + 1
        for window in section.windows:
            numbers = _windows(values, end - window, end, begin, section.statistics)
            found += [numbers[statistic] for statistic in section.statistics]
    columns: list[pl.Series] = []
    for name, sorted_values in zip(_names(section), found, strict=True):
        values = np.empty(frame.height)
        values[order] = sorted_values
        columns.append(pl.Series(name, values, nan_to_null=True))
    return columns


def _places(frame: pl.DataFrame, section: HistorySection) -> tuple[Integers, Integers, Integers]:
    """The rows sorted by (group, time, place), int64 [N], and of each sorted row the sorted place
    of the first row of its moment, and of the first of its group. A row without a time has no past
    and belongs to no other: it is a group of its own."""
    times = frame[section.time]
    missing = times.is_null().to_numpy()
    moment = times.rank("dense").fill_null(0).cast(pl.Int64).to_numpy()
    group = np.zeros(frame.height, dtype=np.int64)
    if section.group:
        labels = to_labels(frame[section.group])
        group = labels.rank("dense").fill_null(0).cast(pl.Int64).to_numpy()
    group = np.where(missing, -1 - np.arange(frame.height), group)
    order = np.lexsort((moment, group))
    group, moment = group[order], moment[order]
    place = np.arange(frame.height)
    new_group = np.ones(frame.height, dtype=bool)
    new_group[1:] = group[1:] != group[:-1]
    new_moment = new_group.copy()
    new_moment[1:] |= moment[1:] != moment[:-1]
    first = np.maximum.accumulate(np.where(new_moment, place, 0))
    begin = np.maximum.accumulate(np.where(new_group, place, 0))
    return order, first, begin


def _at(values: Floats, places: Integers, begin: Integers) -> Floats:
    """The values at these places; NaN where they lie before the group."""
    inside = places >= begin
    return np.where(inside, values[np.where(inside, places, 0)], np.nan)


def _windows(
    values: Floats, start: Integers, end: Integers, begin: Integers, wanted: tuple[str, ...]
) -> dict[str, Floats]:
    """Statistics of `values[start:end]` of each row, from the values that are there: a window that
    begins before its group is shorter. One pass over the offsets holds N numbers at a time."""
    window = int((end - start).max()) if len(start) else 0
    count, total = np.zeros(len(start)), np.zeros(len(start))
    least, most = np.full(len(start), np.inf), np.full(len(start), -np.inf)
    for offset in range(window):
        seen = _at(values, start + offset, begin)
        present = ~np.isnan(seen)
        count += present
        total += np.where(present, seen, 0.0)
        least = np.fmin(least, seen)
        most = np.fmax(most, seen)
    empty = count == 0
    mean = total / np.where(empty, 1.0, count)
    numbers = {"count": count, "sum": total, "mean": mean, "min": least, "max": most}
    if "std" in wanted:
        squares = np.zeros(len(start))
        for offset in range(window):
            apart = _at(values, start + offset, begin) - mean
            squares += np.where(np.isnan(apart), 0.0, apart**2)
        numbers["std"] = np.sqrt(squares / np.where(empty, 1.0, count))
    return {
        name: one if name == "count" else np.where(empty, np.nan, one)
        for name, one in numbers.items()
    }


def _no_past(section: HistorySection) -> DataMistake:
    group = f" of its {section.group}" if section.group else ""
    return DataMistake(
        Problem(
            f"no row has an earlier row{group}, which the model was trained with",
            path=section.time,
            expected=f"the rows to predict together with those before them, by {section.time}",
            fix="put the earlier rows into the same file; each row of it is predicted",
        )
    )
