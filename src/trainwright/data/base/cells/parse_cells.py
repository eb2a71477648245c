"""Parsing of cells as numbers, labels and dates, the same for every file."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

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
"""Date formats recognised without `columns.<name>.format`, in this order."""

LARGEST = float(np.finfo(np.float32).max)
"""Features are 32-bit floats; a larger number would become infinite."""

SERIAL, FORMS = "excel", " | "
"""Format name of spreadsheet serial numbers, and the separator of several formats."""

DATES = pl.Datetime("us")
_DAY, _FIRST_SERIAL, _SERIALS = 86_400_000_000, "-25569d", (1.0, 2_958_466.0)
_FIRST_YEAR = 1000
FIRST_DATES, FIRST_VALUES = 20, 100
"""Number of values used to find the closest date format."""


def plain_type(series: pl.Series) -> pl.Series:
    """Cast to one of the few types used by the data packages."""
    dtype = series.dtype
    if dtype in (pl.Categorical, pl.Enum, pl.Time, pl.Boolean, pl.Null):
        return series.cast(pl.String)
    if dtype == pl.Date:
        return series.cast(DATES)
    if isinstance(dtype, pl.Datetime):
        if dtype.time_zone:
            series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return series.cast(DATES)
    if dtype == pl.Duration:
        return series.dt.total_microseconds() / 1_000_000
    if dtype.is_decimal():
        return series.cast(pl.Float64)
    return series


@final
@dataclass(frozen=True, slots=True)
class ReadColumn:
    """A column parsed as one kind. `bad` are the rows with a value that does not parse."""

    series: pl.Series
    bad: Integers


def to_numbers(cells: pl.Series) -> ReadColumn:
    """Cleaned cells as Float64: null where missing; infinities stay, for the caller to refuse."""
    if cells.dtype == pl.String or cells.dtype.is_numeric():
        numbers = cells.cast(pl.Float64, strict=False)
        # Null counts are cached and sums are fast: most columns need no scan of single cells.
        bad = _none()
        if numbers.null_count() > cells.null_count():
            bad = _rows((cells.is_not_null() & numbers.is_null()).arg_true())
        return ReadColumn(without_nan(numbers), bad)
    return ReadColumn(_nothing(cells, pl.Float64()), _rows(cells.is_not_null().arg_true()))


def without_nan(numbers: pl.Series) -> pl.Series:
    """NaN replaced by null; a single NaN makes the sum NaN."""
    return numbers.fill_nan(None) if math.isnan(numbers.sum()) else numbers


def to_labels(cells: pl.Series) -> pl.Series:
    """Cleaned cells as String; integers are written without `.0`, whatever their type."""
    if cells.dtype == pl.String:
        # Searching for ".0" takes a tenth of the time of the pattern.
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
    codes); without one, every recognised format is tried."""
    if cells.dtype == DATES:
        return ReadColumn(cells, _none())
    if cells.dtype.is_numeric() and SERIAL in form:
        cells = cells.cast(pl.String)
    if cells.dtype != pl.String:
        return ReadColumn(_nothing(cells, DATES), _rows(cells.is_not_null().arg_true()))
    moments = parse_moments(cells, form) if form else _nothing(cells, DATES)
    if not form and (forms := date_formats(cells)):
        moments = parse_moments(cells, forms[0])
    return ReadColumn(moments, _rows((cells.is_not_null() & moments.is_null()).arg_true()))


def date_formats(cells: pl.Series) -> tuple[str, ...]:
    """Recognised formats that parse all values of a text column. More than one means that day and
    month are ambiguous."""
    return formats_of(cells.drop_nulls().head(FIRST_DATES), [cells])


def formats_of(first: pl.Series, slices: Iterable[pl.Series]) -> tuple[str, ...]:
    """`date_formats` of a column in chunks, with its first values."""
    if not len(first) or not _with_digits(first).all():
        return ()
    forms = [form for form in DATE_FORMATS if not parse_moments(first, form).null_count()]
    for cells in slices:
        if not forms:
            break
        present = cells.drop_nulls()
        forms = [form for form in forms if not parse_moments(present, form).null_count()]
    return tuple(forms)


def closest_format(first: pl.Series, slices: Iterable[pl.Series]) -> tuple[str, int]:
    """The recognised format that parses most of the first values of a text column, and the number
    of all values that it parses; empty and 0 if none does."""
    first = first.head(FIRST_VALUES)
    if not _with_digits(first).any():
        return "", 0
    counts = {form: parse_moments(first, form).count() for form in DATE_FORMATS}
    form = max(counts, key=lambda form: counts[form])
    if not counts[form]:
        return "", 0
    return form, sum(parse_moments(cells, form).count() for cells in slices)


def _with_digits(cells: pl.Series) -> pl.Series:
    """Where a cell has a digit: no format parses a text without one, and to try them all takes
    longer than all else that is found out about a column of words."""
    return cells.str.contains("[0-9]")


def parse_moments(cells: pl.Series, form: str) -> pl.Series:
    """Parse text as Datetime by a format, or by the first of several that parses it; null
    otherwise. Two-digit years are not of the first century."""
    first, _, others = form.partition(FORMS)
    if first == SERIAL:
        days = cells.cast(pl.Float64, strict=False)
        days = days.set(~days.is_between(*_SERIALS), None)
        moments = (days * _DAY).round(0).cast(pl.Int64).cast(DATES).dt.offset_by(_FIRST_SERIAL)
    else:
        read = cells.str.to_datetime(first, strict=False, time_unit="us", ambiguous="null")
        moments = plain_type(read)
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
