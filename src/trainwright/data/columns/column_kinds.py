"""Column type inference from the training rows, and why a column is excluded."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import Literal, assert_never, final

import numpy as np
import polars as pl

from trainwright.contract.key_paths import as_key
from trainwright.contract.sections.data.table_data import Column, ColumnKind
from trainwright.core.errors import Problem
from trainwright.core.files import Json
from trainwright.data.base.cleaned_cells import Cells
from trainwright.data.base.inputs import Integers
from trainwright.data.base.messages import quoted
from trainwright.data.base.parse_cells import (
    DATE_FORMATS,
    DATES,
    FIRST_VALUES,
    LARGEST,
    ReadColumn,
    closest_format,
    to_labels,
    to_moments,
    to_numbers,
    to_whole,
)
from trainwright.data.columns.identifiers import find_origin, identifying, nearly_identifying
from trainwright.data.formats.file_format import known_format
from trainwright.data.formats.number_formats import how_written
from trainwright.data.sources.source_file import SourceFile

Kind = Literal["numeric", "categorical", "datetime", "text", "ignored"]

MOSTLY, MOSTLY_DISTINCT, NEARLY_UNIQUE = 0.9, 0.5, 0.95
_ROUNDING = 2.0**-46
"""Spread of numbers, as a share of their size, that a sum of many terms has in double precision."""
_FEWEST_TO_JUDGE, _FREE_TEXT_LENGTH, _FREE_TEXT_WORDS = 20, 20, 3
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
WORDS = rf"[{_UNSPACED}]{{1,2}}|[^\s{_UNSPACED}]+"
"""Pattern of words; in a script without spaces, of pairs of characters."""
_OF_BIRTH = ("birth", "geburt", "geboren", "naissance", "nacimiento", "nascimento", "nascita")
_BIRTHS = frozenset({"born", "dob", "bday"})


@final
@dataclass(frozen=True, slots=True)
class ColumnType:
    """Type of one column. `reason` explains it, in particular why a column is `ignored`; `missing`
    and `distinct` count over the training file; `format` is the datetime format, `unreadable` the
    treatment of values that do not parse. An `origin` other than 0 is one from which doubles tell
    the whole numbers of a numeric column apart; they stay Int64."""

    name: str
    kind: Kind
    reason: str
    missing: int
    distinct: int
    example: str
    format: str = ""
    unreadable: Literal["refuse", "missing"] = "refuse"
    origin: int = 0

    def to_json(self) -> Json:
        """The fields by name."""
        fields = asdict(self)
        # Defaults are omitted, so that existing data versions stay valid.
        if self.unreadable == "refuse":
            del fields["unreadable"]
        if not self.origin:
            del fields["origin"]
        return fields

    def distances(self, frame: pl.DataFrame) -> pl.Series:
        """Its numbers in typed rows, from `origin`."""
        return to_numbers(frame[self.name], self.origin).series

    @classmethod
    def from_json(cls, value: Json) -> ColumnType:
        """The column that `to_json` wrote."""
        return cls(**value)


@final
@dataclass(frozen=True, slots=True)
class Inferred:
    """A column's type and its problems."""

    type: ColumnType
    problems: tuple[Problem, ...] = ()


def name_tokens(name: str) -> frozenset[str]:
    """The words of a column name: `PassengerId` and `passenger_id` give passenger, id."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return frozenset(token.lower() for token in re.findall(r"[A-Za-z]+|\d+", spaced))


def names_birth(name: str) -> bool:
    """Does a column's name say date of birth? It gives an age, not the time of the row."""
    tokens = name_tokens(name)
    return bool(tokens & _BIRTHS) or any(part in one for one in tokens for part in _OF_BIRTH)


def infer_column(
    cells: Cells, written: Column, left_out: str, source: SourceFile, keep: bool = False
) -> Inferred:
    """Infer the type of a column from its cleaned training cells.

    `left_out` is the reason why the contract excludes it from the features (empty if it does not);
    `keep`: the contract needs the column, so no identifier rule applies.
    """
    if left_out:
        return Inferred(_described(cells, "ignored", left_out, _best_format(cells, written)))
    inferred = _inferred(cells, written, source, keep)
    if written.unreadable == "refuse" or inferred.type.kind not in ("numeric", "datetime"):
        return inferred
    # Unreadable values are then no problem, as long as the format is unambiguous.
    clear = inferred.type.kind == "numeric" or inferred.type.format
    typed = replace(inferred.type, unreadable=written.unreadable)
    return Inferred(typed, () if clear else inferred.problems)


def _inferred(cells: Cells, written: Column, source: SourceFile, keep: bool) -> Inferred:
    if written.kind != "auto":
        return _as_written(cells, written.kind, written, source)
    if written.unit:
        return _as_written(cells, "numeric", written, source)
    if written.format != "auto":
        return _as_written(cells, "datetime", written, source)
    if not cells.present:
        return Inferred(_described(cells, "ignored", "missing in every training row"))
    inferred = _by_values(cells, source)
    if inferred.type.kind == "numeric" and cells.has_long_numbers:
        origin = find_origin(cells)
        kind: Kind = "categorical" if origin is None else "numeric"
        inferred = replace(inferred, type=replace(inferred.type, kind=kind, origin=origin or 0))
    if reason := "" if keep or inferred.problems else _not_a_feature(cells, inferred.type):
        return Inferred(_described(cells, "ignored", reason, inferred.type.format))
    return inferred


def type_column(cells: pl.Series, column: ColumnType) -> tuple[pl.Series, Integers]:
    """Cleaned cells typed by the column's kind, and the rows that do not parse. Ignored columns
    take the best type these values allow; see `as_typed` for chunks.
    """
    match column.kind:
        case "numeric":
            reading = to_whole(cells) if column.origin else to_numbers(cells)
            return reading.series, reading.bad
        case "datetime":
            reading = to_moments(cells, column.format)
            return reading.series, reading.bad
        case "categorical" | "text":
            return to_labels(cells), np.empty(0, dtype=np.int64)
        case "ignored":
            return best_typed(cells, column.format), np.empty(0, dtype=np.int64)
        case _:
            assert_never(column.kind)


def whole_problems(
    cells: Cells, column: ColumnType, source: SourceFile
) -> tuple[pl.Series, tuple[Problem, ...]]:
    """`kind_problems` of all cells at once, parsed as numbers only once."""
    if column.kind != "numeric" or column.origin:
        return kind_problems(cells.whole(), column, source)
    return _refused(cells, cells.numbers, column, source)


def kind_problems(
    cells: pl.Series, column: ColumnType, source: SourceFile
) -> tuple[pl.Series, tuple[Problem, ...]]:
    """`type_column`, with values invalid for the kind as problems with their rows."""
    return _refused(Cells(cells), ReadColumn(*type_column(cells, column)), column, source)


def new_problems(
    cells: pl.Series, column: ColumnType, source: SourceFile
) -> tuple[pl.Series, tuple[Problem, ...]]:
    """`kind_problems` of rows for a model that is trained already: how they are read is settled, so
    that only the rows can change."""
    series, problems = kind_problems(cells, column, source)
    if not problems:
        return series, ()
    wrong = (cells.is_not_null() & series.is_null()) | (_is_too_large(series))
    rows = source.rows_text(wrong.fill_null(value=False).arg_true().cast(pl.Int64).to_numpy())
    fix = f"correct column {column.name!r} in {rows} of the input, or leave these cells empty"
    return series, tuple(replace(problem, fix=fix) for problem in problems)


def _is_too_large(series: pl.Series) -> pl.Series:
    if not series.dtype.is_numeric():
        return pl.repeat(False, len(series), eager=True)
    return series.abs() > LARGEST


def _refused(
    cells: Cells, reading: ReadColumn, column: ColumnType, source: SourceFile
) -> tuple[pl.Series, tuple[Problem, ...]]:
    series, bad = reading.series, reading.bad
    refused = len(bad) and column.unreadable == "refuse"
    problems = [_unreadable(cells.whole(), bad, column.kind, source)] if refused else []
    if column.kind == "numeric":
        problems += infinite_problems(series, source)
    return series, tuple(problems)


def infinite_problems(numbers: pl.Series, source: SourceFile) -> list[Problem]:
    """Problem of infinite or too large values in a numeric column, if any."""
    rows = _is_too_large(numbers).arg_true().cast(pl.Int64).to_numpy()
    if not len(rows):
        return []
    return [
        Problem(
            "a numeric column holds values that are infinite or beyond 32-bit floats",
            path=str(numbers.name),
            found=f"{len(rows)} such values, in {source.rows_text(rows)}",
            expected=f"numbers up to {LARGEST:.3g}",
            fix="replace them in the file, or list their spelling in data.missing_values",
            place=source.place(int(rows[0])),
            kind="infinite",
        )
    ]


def _as_written(cells: Cells, kind: ColumnKind, written: Column, source: SourceFile) -> Inferred:
    form = "" if written.format == "auto" else written.format
    if kind == "ignored":
        form = _best_format(cells, written)
    elif kind == "datetime" and not form and cells.dtype == pl.String:
        forms = cells.date_formats
        if len(forms) > 1:
            return Inferred(_described(cells, kind, ""), (_ambiguous(cells, forms, source),))
        form = forms[0] if forms else closest_format(cells.first(FIRST_VALUES), ())[0]
    described = _described(cells, kind, "set in the contract", form)
    if not cells.present:
        described = _described(cells, "ignored", "missing in every training row")
    elif kind == "numeric" and not cells.not_numbers and cells.has_long_numbers:
        described = replace(described, origin=find_origin(cells) or 0)
    return Inferred(described)


def _by_values(cells: Cells, source: SourceFile) -> Inferred:
    if cells.dtype.is_numeric():
        return Inferred(_described(cells, "numeric", "its type in the file"))
    if cells.dtype == pl.Datetime("us"):
        return Inferred(_described(cells, "datetime", "its type in the file"))
    if cells.dtype != pl.String:
        what = "bytes" if cells.dtype == pl.Binary else "nested values"
        return Inferred(_described(cells, "ignored", f"it holds {what} ({cells.dtype})"))
    present = cells.present
    if not cells.not_numbers:
        return Inferred(_described(cells, "numeric", "every value is a number"))
    if present - cells.not_numbers >= MOSTLY * present:
        described = _described(cells, "numeric", "nearly every value is a number")
        bad = to_numbers(cells.whole()).bad
        return Inferred(described, (_unreadable(cells.whole(), bad, "numeric", source),))
    if forms := cells.date_formats:
        described = _described(cells, "datetime", f"every value is written {forms[0]}", forms[0])
        ambiguous = (_ambiguous(cells, forms, source),) if len(forms) > 1 else ()
        return Inferred(described, ambiguous)
    form, count = closest_format(cells.first(FIRST_VALUES), cells.slices())
    if count >= MOSTLY * present:
        described = _described(cells, "datetime", f"nearly every value is written {form}", form)
        bad = to_moments(cells.whole(), form).bad
        return Inferred(described, (_unreadable(cells.whole(), bad, "datetime", source),))
    return Inferred(_described(cells, "categorical", "its values are text"))


def _not_a_feature(cells: Cells, column: ColumnType) -> str:
    present = cells.present
    if column.distinct == 1 and not column.missing:
        return "constant: every row has the same value"
    if column.kind == "numeric" and not column.missing:
        lowest, highest = cells.extent
        size, are_whole = max(-lowest, highest), lowest % 1 == highest % 1 == 0  # And exact.
        if not are_whole and size <= LARGEST and highest - lowest <= _ROUNDING * size:
            return "constant: every row has the same value but for rounding"
    if present < _FEWEST_TO_JUDGE:
        return ""
    if column.kind == "numeric":
        if column.missing:
            return ""
        names_rows = identifying if column.distinct == len(cells) else nearly_identifying
        return names_rows(cells, name_tokens(column.name), column.origin)
    if column.kind != "categorical" or column.distinct <= MOSTLY_DISTINCT * present:
        return ""
    share = f"{column.distinct:,} different values in {present:,} rows"
    length, words = _typical_text(cells)
    if length > _FREE_TEXT_LENGTH or words >= _FREE_TEXT_WORDS:
        return f"free text: {share}"
    if column.distinct >= NEARLY_UNIQUE * present:
        return f"identifier: {share}"
    return f"values rarely repeat: {share}"


def _typical_text(cells: Cells) -> tuple[float, float]:
    """Mean characters and mean words of the present values."""
    words, letters = 0, 0
    for one in cells.slices():
        values = one.drop_nulls()
        words += int(values.str.count_matches(WORDS).to_numpy().sum())
        letters += int(values.str.len_chars().to_numpy().sum())
    return letters / cells.present, words / cells.present


def _described(cells: Cells, kind: Kind, reason: str, form: str = "") -> ColumnType:
    first = cells.first(1)
    example = "" if cells.is_nested or not len(first) else str(to_labels(first)[0])
    return ColumnType(cells.name, kind, reason, cells.missing, cells.distinct, example[:60], form)


def _best_format(cells: Cells, written: Column) -> str:
    if written.format != "auto":
        return written.format
    if cells.dtype != pl.String or not cells.not_numbers:
        return ""
    return cells.date_formats[0] if len(cells.date_formats) == 1 else ""


def as_typed(column: ColumnType, cells: Cells) -> ColumnType:
    """The column with the type for every chunk of its cells: for dates the one format that parses
    them all, for an ignored column the best type they allow."""
    if column.kind == "datetime" and not column.format and cells.dtype == pl.String:
        return replace(column, format=(*cells.date_formats, DATE_FORMATS[0])[0])
    if column.kind != "ignored":
        return column
    if column.format:
        return replace(column, kind="datetime")
    if not (cells.dtype == pl.String or cells.dtype.is_numeric()):
        return column
    numbers = cells.present and not cells.not_numbers
    if not numbers or cells.dtype.is_float() or not cells.has_long_numbers:
        return replace(column, kind="numeric" if numbers else "categorical")
    if not any(len(to_whole(one).bad) for one in cells.slices()):
        return replace(column, kind="numeric", origin=1)
    return replace(column, kind="numeric" if find_origin(cells) == 0 else "categorical")


def best_typed(cells: pl.Series, form: str = "") -> pl.Series:
    """Cleaned cells as dates if `form` is given, else as numbers if all are, else as labels."""
    if form or cells.dtype == DATES:
        return to_moments(cells, form).series
    column = as_typed(ColumnType(cells.name, "ignored", "", 0, 0, ""), Cells(cells))
    return cells if column.kind == "ignored" else type_column(cells, column)[0]


def _unreadable(cells: pl.Series, bad: Integers, kind: Kind, source: SourceFile) -> Problem:
    spellings = to_labels(cells.gather(bad)).unique(maintain_order=True).to_list()
    what, wanted = (
        ("dates", "dates written alike") if kind == "datetime" else ("numbers", "numbers")
    )
    column = f"data.columns.{as_key(cells.name)}"
    fix = (
        f"add the spelling to data.missing_values, set {column}.format, or its kind to categorical"
        if kind == "datetime"
        else f"add the spelling to data.missing_values, or set {column}.kind to categorical"
    )
    if cells.dtype == DATES:
        wanted = "dates of the years 1 to 9999"
        fix = f"set {column}.unreadable to missing, or its kind to ignored, or repair these cells"
    if kind == "numeric" and known_format(source.files[0].path):
        fix = _numbers_fix(cells) or fix
    return Problem(
        f"some values of the column are not {what}",
        path=str(cells.name),
        found=f"{quoted(spellings)} in {source.rows_text(bad)}",
        expected=wanted,
        fix=fix,
        place=source.place(int(bad[0])),
    )


def _numbers_fix(cells: pl.Series) -> str:
    """Fix for numbers with commas; empty for other values."""
    name = as_key(cells.name)
    match how_written(cells):
        case "decimal_comma" | "thousands_comma" | "accounting" as way:
            return f"data.reading.numbers: {{{name}: {way}}} reads numbers written so"
        case "either":
            return (
                f"say whether 1,234 is 1.234, data.reading.numbers: {{{name}: decimal_comma}}"
                ", or 1234, thousands_comma"
            )
        case "points" | "plain":
            return ""


def _ambiguous(cells: Cells, forms: tuple[str, ...], source: SourceFile) -> Problem:
    return Problem(
        "the dates can be read in more than one way",
        path=str(cells.name),
        found=f"{cells.first(1)[0]!r} as {' or '.join(forms)}",
        fix=f"set data.columns.{as_key(cells.name)}.format to one of them",
        place=source.place(),
    )
