"""Cells: the same cleaning and the same reading of numbers, labels and dates for every file."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np
import polars as pl

from trainwright.contract.data import TableData
from trainwright.core.files import Json
from trainwright.data.base.number_units import Unit
from trainwright.data.base.table import Integers

DATE_FORMATS = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%dT%H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M:%S%.f%#z",
    "%Y/%m/%d",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M:%S",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M",
    "%d.%m.%Y",
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d %b %Y",
    "%b %d, %Y",
)
"""The ways of writing a date that are recognised without `columns.<name>.format`, in this order."""

LARGEST = float(np.finfo(np.float32).max)
"""Features are 32-bit floats; a larger number would become infinite."""

SERIAL, FORMS = "excel", " | "
"""The form of spreadsheets' serial numbers, and what stands between several forms."""

_DATES = pl.Datetime("us")
_DAY, _FIRST_SERIAL, _SERIALS = 86_400_000_000, "-25569d", (1.0, 2_958_466.0)
_FIRST_YEAR = 1000
FIRST_DATES, FIRST_VALUES = 20, 100
"""So many values show which way of writing a date is the closest."""


def as_it_is(values: pl.Series) -> pl.Series:
    """The values themselves."""
    return values


@final
@dataclass(frozen=True, slots=True)
class Cleaning:
    """What is done to every cell before it is typed: blanks stripped, spellings replaced, missing
    spellings made null, units taken off."""

    missing: tuple[str, ...]
    values: Mapping[str, Mapping[str, str]]
    units: Mapping[str, Unit] = field(default_factory=dict)

    @classmethod
    def of(cls, section: TableData) -> Cleaning:
        """The cleaning that a contract asks for."""
        values = {name: dict(column.values) for name, column in section.columns.items()}
        commas = section.reading.numbers
        units = {
            name: Unit(column.unit, commas.get(name, ""))
            for name, column in section.columns.items()
            if column.unit
        }
        return cls(section.missing_values, {name: v for name, v in values.items() if v}, units)

    def cells(self, series: pl.Series) -> pl.Series:
        """A cleaned column: String, a number type, Datetime, or nested values left alone.

        NaN counts as missing. Dates become moments in UTC without a zone.
        """
        replace = self.values.get(series.name, {})
        series = _plain(series)
        if replace and (series.dtype.is_numeric() or series.dtype == _DATES):
            series = to_labels(series)
        if series.dtype == pl.String:
            return self._text(series, replace)
        if series.dtype.is_numeric():
            return self._numbers(series)
        return series

    def frame(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Every column of a frame cleaned."""
        return pl.DataFrame([self.cells(column) for column in frame.get_columns()])

    def to_json(self) -> Json:
        """What `from_json` reads."""
        units = {name: unit.to_json() for name, unit in self.units.items()}
        return {
            "missing": list(self.missing),
            "values": {name: dict(replace) for name, replace in self.values.items()},
            # Absent where nothing has one, as before there were any: versions of data stay.
            **({"units": units} if units else {}),
        }

    @classmethod
    def from_json(cls, value: Json) -> Cleaning:
        """The cleaning that `to_json` wrote."""
        units = {name: Unit.from_json(unit) for name, unit in value.get("units", {}).items()}
        return cls(tuple(value["missing"]), value["values"], units)

    def _text(self, series: pl.Series, replace: Mapping[str, str]) -> pl.Series:
        series = series.str.strip_chars()
        if replace:
            series = series.replace(list(replace), list(replace.values()))
        missing = list({"", *self.missing})
        series = series.set(series.is_in(missing), None)
        unit = self.units.get(series.name)
        return series if unit is None else unit.without(series)

    def _numbers(self, series: pl.Series) -> pl.Series:
        if series.dtype.is_float():
            series = _without_nan(series)
        tokens = []
        for token in self.missing:
            with contextlib.suppress(ValueError):
                tokens.append(float(token))
        tokens = [token for token in tokens if np.isfinite(token)]
        if not tokens:
            return series
        return series.set(series.cast(pl.Float64).is_in(tokens), None)


def _plain(series: pl.Series) -> pl.Series:
    """One of the few types that the rest of the stage knows."""
    dtype = series.dtype
    if dtype in (pl.Categorical, pl.Enum, pl.Time, pl.Boolean, pl.Null):
        return series.cast(pl.String)
    if dtype == pl.Date:
        return series.cast(_DATES)
    if isinstance(dtype, pl.Datetime):
        if dtype.time_zone:
            series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return series.cast(_DATES)
    if dtype == pl.Duration:
        return series.dt.total_microseconds() / 1_000_000
    if dtype.is_decimal():
        return series.cast(pl.Float64)
    return series


@final
@dataclass(frozen=True, slots=True)
class ReadColumn:
    """A column read as one kind. `bad` are the rows whose value is there but is not of the kind."""

    series: pl.Series
    bad: Integers


def to_numbers(cells: pl.Series) -> ReadColumn:
    """Cleaned cells as Float64: null where missing; infinities stay, for the caller to refuse."""
    if cells.dtype == pl.String or cells.dtype.is_numeric():
        numbers = cells.cast(pl.Float64, strict=False)
        # Counts of nulls are kept and sums are quick: most columns need no look at single cells.
        bad = _none()
        if numbers.null_count() > cells.null_count():
            bad = _rows((cells.is_not_null() & numbers.is_null()).arg_true())
        return ReadColumn(_without_nan(numbers), bad)
    return ReadColumn(_nothing(cells, pl.Float64()), _rows(cells.is_not_null().arg_true()))


def _without_nan(numbers: pl.Series) -> pl.Series:
    """The same with null for NaN, of which a single one makes the sum NaN."""
    return numbers.fill_nan(None) if math.isnan(numbers.sum()) else numbers


def to_labels(cells: pl.Series) -> pl.Series:
    """Cleaned cells as String; a whole number is written without its `.0`, whatever wrote it."""
    if cells.dtype == pl.String:
        # Looking for ".0" takes a tenth of the time of the pattern.
        if not cells.str.contains(".0", literal=True).any():
            return cells
        return cells.str.replace(r"^([+-]?\d+)\.0+$", "${1}")
    if cells.dtype.is_float():
        whole = cells.is_not_null() & (cells == cells.round(0)) & (cells.abs() < 2.0**53)
        integers = cells.cast(pl.Int64, strict=False).cast(pl.String)
        return integers.zip_with(whole, cells.cast(pl.String)).alias(cells.name)
    if cells.dtype.is_nested() or cells.dtype in (pl.Binary, pl.Object):
        return _nothing(cells, pl.String())
    return cells.cast(pl.String)


def to_moments(cells: pl.Series, form: str) -> ReadColumn:
    """Cleaned cells as Datetime in microseconds, UTC. Text must be written as `form` (strftime
    codes); without one, every recognised way of writing is tried."""
    if cells.dtype == _DATES:
        return ReadColumn(cells, _none())
    if cells.dtype.is_numeric() and SERIAL in form:
        cells = cells.cast(pl.String)
    if cells.dtype != pl.String:
        return ReadColumn(_nothing(cells, _DATES), _rows(cells.is_not_null().arg_true()))
    moments = parse_moments(cells, form) if form else _nothing(cells, _DATES)
    if not form and (forms := date_formats(cells)):
        moments = parse_moments(cells, forms[0])
    return ReadColumn(moments, _rows((cells.is_not_null() & moments.is_null()).arg_true()))


def date_formats(cells: pl.Series) -> tuple[str, ...]:
    """The recognised formats that all values of a text column follow. More than one means that day
    and month cannot be told apart."""
    return formats_of(cells.drop_nulls().head(FIRST_DATES), [cells])


def formats_of(first: pl.Series, slices: Iterable[pl.Series]) -> tuple[str, ...]:
    """The same of a column that comes in slices, with its first values."""
    if not len(first):
        return ()
    forms = [form for form in DATE_FORMATS if not parse_moments(first, form).null_count()]
    for cells in slices:
        if not forms:
            break
        present = cells.drop_nulls()
        forms = [form for form in forms if not parse_moments(present, form).null_count()]
    return tuple(forms)


def closest_format(first: pl.Series, slices: Iterable[pl.Series]) -> tuple[str, int]:
    """The recognised format that most of the first values of a text column follow, and how many of
    all values follow it; empty and 0 if none does."""
    first = first.head(FIRST_VALUES)
    counts = {form: parse_moments(first, form).count() for form in DATE_FORMATS}
    form = max(counts, key=lambda form: counts[form])
    if not counts[form]:
        return "", 0
    return form, sum(parse_moments(cells, form).count() for cells in slices)


def parse_moments(cells: pl.Series, form: str) -> pl.Series:
    """Text as Datetime by a form, or by the first of several that reads it; null where none does.
    A year of two digits is none of the first century."""
    first, _, others = form.partition(FORMS)
    if first == SERIAL:
        days = cells.cast(pl.Float64, strict=False)
        days = days.set(~days.is_between(*_SERIALS), None)
        moments = (days * _DAY).round(0).cast(pl.Int64).cast(_DATES).dt.offset_by(_FIRST_SERIAL)
    else:
        read = cells.str.to_datetime(first, strict=False, time_unit="us", ambiguous="null")
        moments = _plain(read)
        moments = moments.set(moments.dt.year() < _FIRST_YEAR, None)
    if others and moments.null_count():
        later = parse_moments(cells, others)
        moments = moments.zip_with(moments.is_not_null(), later)
    return moments.alias(cells.name)


def _nothing(cells: pl.Series, dtype: pl.DataType) -> pl.Series:
    return pl.Series(cells.name, [None] * len(cells), dtype=dtype)


def _none() -> Integers:
    return np.empty(0, dtype=np.int64)


def _rows(positions: pl.Series) -> Integers:
    return positions.cast(pl.Int64).to_numpy()
