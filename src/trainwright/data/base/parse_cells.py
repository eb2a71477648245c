"""Parsing of cells as numbers, labels and dates, the same for every file; units and spellings."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from string import ascii_lowercase
from types import MappingProxyType
from typing import Literal, final

import numpy as np
import polars as pl

from trainwright.core.files import Json
from trainwright.data.base.inputs import Integers

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
    "%d %B %Y",
    "%B %d, %Y",
    "%Y-%m",
    "%Y %B",
    "%G-W%V",
    "%G W%V",
    "%Y Q%q",
    "%Y-Q%q",
    "%YQ%q",
)
"""Date formats recognised without `columns.<name>.format`, in this order. A month or quarter is its
first day, an ISO week its Monday."""

LARGEST = float(np.finfo(np.float32).max)
"""Features are 32-bit floats; a larger number would become infinite."""

LAST_WHOLE = 2.0**53
"""Above it, doubles do not hold every whole number."""

SERIAL, FORMS, UNTIL = "excel", " | ", " until "
"""Format name of spreadsheet serial numbers, the separator of several formats, and what stands
before the last year that two-digit years may mean (`%d-%m-%y until 2025`)."""

DATES = pl.Datetime("us")
_DAYS_IN = MappingProxyType({"ms": 86_400_000, "us": 86_400_000_000})
_FARTHEST_DAY = 80_000_000
_DAY, _FIRST_SERIAL, _SERIALS = 86_400_000_000, "-25569d", (1.0, 2_958_466.0)
_FIRST_YEAR, _LAST_YEAR = 1000, 9999
FIRST_DATES, FIRST_VALUES = 20, 100
"""Number of values used to find the closest date format."""

_PLAIN = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_NUMBER = MappingProxyType(
    {
        "": _PLAIN,
        "thousands_comma": rf"(?:[0-9]{{1,3}}(?:,[0-9]{{3}})+(?:\.[0-9]*)?|{_PLAIN})",
        "accounting": rf"(?:[0-9]{{1,3}}(?:,[0-9]{{3}})+(?:\.[0-9]*)?|{_PLAIN})",
        "decimal_comma": (
            r"(?:[0-9]{1,3}(?:[.' \u00a0\u202f][0-9]{3})+(?:,[0-9]+)?|[0-9]+(?:,[0-9]+)?)"
        ),
    }
)

_CODES = MappingProxyType({"€": "EUR", "£": "GBP", "¥": "JPY", "$": "USD", "US$": "USD"})
"""Signs of currencies, which mean one code each. A sign that others share (`$` of AUD, `¥` of CNY)
is not one unit with their codes."""

INVISIBLE = r"[\u{00ad}\u{180e}\u{200b}\u{2060}-\u{2064}\u{202a}-\u{202e}\u{2066}-\u{2069}\u{feff}]"
"""Characters that show nothing: soft hyphens, blanks without width, marks of direction. The joiners
U+200C and U+200D are letters of some scripts and parts of emoji."""

_ALPHABET = frozenset(ascii_lowercase)
_LOOKALIKES = str.maketrans(
    # Letters of Cyrillic and Greek that look like Latin ones (Unicode TS 39, confusables).
    dict(zip("асеһіјкмоорԛѕтухԝνοαρτυχικ", "acehijkmoopqstyxwvoaptuxik", strict=True))
)

_USUAL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
"""Full-width forms (U+FF01 to U+FF5E) as the letters of ASCII that they are."""


def plain_type(series: pl.Series, zone: str = "UTC") -> pl.Series:
    """Cast to one of the few types used by the data packages; an Arrow extension is read by its
    storage type, and times with a zone as the clock shows them in `zone`."""
    while isinstance(series.dtype, pl.BaseExtension):
        series = series.ext.storage()
    dtype = series.dtype
    if dtype in (pl.Categorical, pl.Enum, pl.Time, pl.Boolean, pl.Null):
        return series.cast(pl.String)
    if isinstance(dtype, pl.Date | pl.Datetime):
        # Polars panics where it casts or prints a date that its calendar cannot hold.
        per_day = _DAYS_IN.get(dtype.time_unit, 1) if isinstance(dtype, pl.Datetime) else 1
        farthest = _FARTHEST_DAY * per_day
        series = series.to_physical().clip(-farthest, farthest).cast(dtype)
        if isinstance(dtype, pl.Datetime) and dtype.time_zone:
            series = series.dt.convert_time_zone(zone).dt.replace_time_zone(None)
        return series.cast(DATES)
    if dtype == pl.Duration:
        return series.dt.total_microseconds() / 1_000_000
    if isinstance(dtype, pl.Decimal):
        return series.cast(pl.Float64 if dtype.scale else pl.Int128)
    return series


@final
@dataclass(frozen=True, slots=True)
class ReadColumn:
    """A column parsed as one kind. `bad` are the rows with a value that does not parse."""

    series: pl.Series
    bad: Integers


def to_numbers(cells: pl.Series, origin: int = 0) -> ReadColumn:
    """Cleaned cells as Float64: null where missing; infinities stay, for the caller to refuse.

    From an `origin`, whole numbers are subtracted as such: those beyond 2**53 keep their digits.
    """
    if origin:
        whole = to_whole(cells)
        start = pl.Series([origin], dtype=pl.Int128)
        return ReadColumn((whole.series.cast(pl.Int128) - start).cast(pl.Float64), whole.bad)
    if cells.dtype == pl.String or cells.dtype.is_numeric():
        numbers = cells.cast(pl.Float64, strict=False)
        # Null counts are cached and sums are fast: most columns need no scan of single cells.
        bad = np.empty(0, dtype=np.int64)
        if numbers.null_count() > cells.null_count():
            bad = _rows((cells.is_not_null() & numbers.is_null()).arg_true())
        return ReadColumn(without_nan(numbers), bad)
    return ReadColumn(_nothing(cells, pl.Float64()), _rows(cells.is_not_null().arg_true()))


def to_whole(cells: pl.Series) -> ReadColumn:
    """Cleaned cells as Int64, to the last digit; `bad` are no whole numbers of 64 bits."""
    doubles = cells.cast(pl.Float64, strict=False)
    whole = doubles.set(doubles != doubles.floor(), None).cast(pl.Int64, strict=False)
    if not cells.dtype.is_float():
        exact = to_labels(cells).cast(pl.Int64, strict=False)
        whole = exact.zip_with(exact.is_not_null(), whole)
    return ReadColumn(whole, _rows((cells.is_not_null() & whole.is_null()).arg_true()))


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
        moments = cells.set(~cells.dt.year().is_between(1, _LAST_YEAR), None)
        return ReadColumn(moments, _rows((cells.is_not_null() & moments.is_null()).arg_true()))
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
    first, _, last_year = first.partition(UNTIL)
    if first == SERIAL:
        days = cells.cast(pl.Float64, strict=False)
        days = days.set(~days.is_between(*_SERIALS), None)
        moments = (days * _DAY).round(0).cast(pl.Int64).cast(DATES).dt.offset_by(_FIRST_SERIAL)
    else:
        if "%V" in first and "%u" not in first:
            cells, first = cells + " 1", f"{first} %u"
        if "Q%q" in first:
            months = {f"Q{quarter}": f"~{3 * quarter - 2:02d}" for quarter in range(1, 5)}
            cells, first = cells.str.replace_many(months), first.replace("Q%q", "~%m")
        read = cells.str.to_datetime(first, strict=False, time_unit="us", ambiguous="null")
        moments = plain_type(read)
        moments = moments.set(moments.dt.year() < _FIRST_YEAR, None)
    if last_year:
        earlier = moments.dt.offset_by("-100y")
        moments = moments.zip_with(moments.dt.year() <= int(last_year), earlier)
    if others and moments.null_count():
        later = parse_moments(cells, others)
        moments = moments.zip_with(moments.is_not_null(), later)
    return moments.alias(cells.name)


def _nothing(cells: pl.Series, dtype: pl.DataType) -> pl.Series:
    return pl.Series(cells.name, [None] * len(cells), dtype=dtype)


def _rows(positions: pl.Series) -> Integers:
    return positions.cast(pl.Int64).to_numpy()


def one_unit(units: pl.Series) -> pl.Series:
    """Units in capitals, the sign of a currency as its code: `€` and `eur` are `EUR`."""
    return units.str.to_uppercase().replace(list(_CODES), list(_CODES.values()))


def with_minus(cells: pl.Series) -> pl.Series:
    """Cells with a minus instead of parentheses around an amount: `-$5` for `($5)` and `$(5)`."""
    return cells.str.replace(r"^([^()+-]*)\(([^()+-]*)\)([^()+-]*)$", "-${1}${2}${3}")


def spellings(unit: str) -> list[str]:
    """The ways of writing a unit, the longest first: sign and code of a currency."""
    code = _CODES.get(unit.upper(), unit.upper())
    same = [sign for sign, other in _CODES.items() if other == code]
    return sorted({unit, *same, code} if same else {unit}, key=lambda one: (-len(one), one))


@final
@dataclass(frozen=True, slots=True)
class Unit:
    """Unit of a column and the format of its numbers."""

    text: str
    commas: Literal["", "decimal_comma", "thousands_comma", "accounting"] = ""

    def without(self, cells: pl.Series) -> pl.Series:
        """Strip the unit from text cells that are a number, with or without it; other cells are
        unchanged. Sign and code of one currency are one unit."""
        same = "|".join(re.escape(one) for one in spellings(self.text))
        unit = rf"(?:(?i:{same})\s*)?"
        pattern = rf"^([+-]?)\s*{unit}([+-]?{_NUMBER[self.commas]})\s*{unit}$"
        signed = with_minus(cells) if self.commas == "accounting" else cells
        bare = signed.str.replace(pattern, "${1}${2}")
        match self.commas:
            case "thousands_comma" | "accounting":
                bare = bare.str.replace_all(",", "", literal=True)
            case "decimal_comma":
                bare = bare.str.replace_all(r"[.' \u00a0\u202f]", "")
                bare = bare.str.replace(",", ".", literal=True)
            case "":
                return bare
        return bare.zip_with(signed.str.contains(pattern).fill_null(value=False), cells)

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {"text": self.text, "commas": self.commas}

    @classmethod
    def from_json(cls, value: Json) -> Unit:
        """The unit that `to_json` wrote."""
        return cls(value["text"], value["commas"])


def folded(values: pl.Series, accents: Literal["kept", "dropped"]) -> pl.Series:
    """Words without what spellings of one word differ in: case, blanks, hyphens, a full stop at the
    end, full-width and composed letters of Unicode, characters that show nothing, letters of
    another script that look like Latin ones among Latin ones, and, if they are `dropped`, accents,
    in which words of some languages differ too. What holds no letter is unchanged, and so is a sign
    before a digit."""
    plain = values.str.replace_all(INVISIBLE, "")
    plain = plain.map_elements(_composed, return_dtype=pl.String)
    if accents == "dropped":
        plain = plain.map_elements(_without_accents, return_dtype=pl.String)
    plain = plain.str.to_lowercase()
    plain = plain.map_elements(_in_one_script, return_dtype=pl.String)
    plain = plain.str.strip_chars().str.replace(r"[.,;:!]+$", "")
    plain = plain.str.replace_all(r"(\s|^)-(\d)", "${1}\x00${2}")
    plain = plain.str.replace_all(r"[\s_-]+", " ")
    return plain.zip_with(plain.str.contains(r"\p{L}"), values)


def may_be_misspelt(plain: pl.Expr) -> pl.Expr:
    """Are folded words long enough to be one word in several spellings? `Aa` and `AA` are two
    genotypes, `a` and `A` two classes."""
    return (plain.str.len_chars() > _LETTERS_OF_A_CODE) | (plain == "no")


_LETTERS_OF_A_CODE = 2


def _composed(word: str) -> str:
    """A word of composed letters of the usual width. What stands above the line stays there: a
    square metre is no m2."""
    return word if word.isascii() else unicodedata.normalize("NFC", word).translate(_USUAL_WIDTH)


def _without_accents(word: str) -> str:
    """A word whose Latin letters have no accents. The marks of other scripts make other letters."""
    if word.isascii():
        return word
    plain: list[str] = []
    for letter in word:
        parts = unicodedata.normalize("NFD", letter)
        first, marks = parts[0], parts[1:]
        latin = first.lower() in _ALPHABET and all(unicodedata.combining(mark) for mark in marks)
        plain.append(first if latin else letter)
    return "".join(plain)


def _in_one_script(word: str) -> str:
    """A word that is part Latin with all its letters in Latin."""
    if word.isascii() or not any(letter in _ALPHABET for letter in word):
        return word
    return word.translate(_LOOKALIKES)
