"""What each column is, read off the training rows, and why a column is left out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, assert_never, final

import numpy as np
import polars as pl

from trainwright.contract.data import Column, ColumnKind
from trainwright.core.errors import Problem
from trainwright.core.files import Json
from trainwright.data.sources import SourceFile
from trainwright.data.table import Integers
from trainwright.data.values import (
    LARGEST,
    closest_format,
    date_formats,
    to_labels,
    to_moments,
    to_numbers,
)
from trainwright.data.wording import quoted

Kind = Literal["numeric", "categorical", "datetime", "text", "ignored"]

MOSTLY = 0.9
MOSTLY_DISTINCT = 0.5
NEARLY_UNIQUE = 0.95
_FEWEST_TO_JUDGE = 20
_FREE_TEXT_LENGTH = 20
_FREE_TEXT_WORDS = 3


@final
@dataclass(frozen=True, slots=True)
class ColumnType:
    """What one column is. `reason` says why, above all why a column is `ignored`; `missing` and
    `distinct` count over the training file; `format` is the strftime form of a datetime."""

    name: str
    kind: Kind
    reason: str
    missing: int
    distinct: int
    example: str
    format: str = ""

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "name": self.name,
            "kind": self.kind,
            "reason": self.reason,
            "missing": self.missing,
            "distinct": self.distinct,
            "example": self.example,
            "format": self.format,
        }

    @classmethod
    def from_json(cls, value: Json) -> ColumnType:
        """The column that `to_json` wrote."""
        return cls(**value)


@final
@dataclass(frozen=True, slots=True)
class Inferred:
    """A column's type, and what is wrong with it."""

    type: ColumnType
    problems: tuple[Problem, ...] = ()


def name_tokens(name: str) -> frozenset[str]:
    """The words of a column name: `PassengerId` and `passenger_id` give passenger, id."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return frozenset(token.lower() for token in re.findall(r"[A-Za-z]+|\d+", spaced))


def infer_column(
    cells: pl.Series, written: Column, left_out: str, source: SourceFile, keep: bool = False
) -> Inferred:
    """The type of a column from its cleaned training cells.

    `left_out` is the reason why the contract never uses it as a feature (empty if it may);
    `keep` says that the contract needs the column, so no identifier rule applies.
    """
    if left_out:
        return Inferred(_described(cells, "ignored", left_out, _best_format(cells, written)))
    if written.kind != "auto":
        return _as_written(cells, written.kind, written, source)
    if written.format != "auto":
        return _as_written(cells, "datetime", written, source)
    if not len(cells) - cells.null_count():
        return Inferred(_described(cells, "ignored", "no training row has a value"))
    inferred = _by_values(cells, source)
    if reason := "" if keep or inferred.problems else _not_a_feature(cells, inferred.type):
        return Inferred(_described(cells, "ignored", reason, inferred.type.format))
    return inferred


def type_column(cells: pl.Series, column: ColumnType) -> tuple[pl.Series, Integers]:
    """Cleaned cells as the column's kind says, and the rows that could not be read so.

    Ignored columns take the best type their values allow, so that slices and splits can use them.
    """
    match column.kind:
        case "numeric":
            reading = to_numbers(cells)
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


def value_problems(
    cells: pl.Series, column: ColumnType, source: SourceFile
) -> tuple[pl.Series, tuple[Problem, ...]]:
    """`type_column` with the values that the kind refuses, each as a problem with its rows."""
    series, bad = type_column(cells, column)
    problems = [_unreadable(cells, bad, column.kind, source)] if len(bad) else []
    if column.kind == "numeric":
        problems += infinite_problems(series, source)
    return series, tuple(problems)


def infinite_problems(numbers: pl.Series, source: SourceFile) -> list[Problem]:
    """The problem of infinite or too large values in a numeric column, if there are any."""
    rows = (numbers.abs() > LARGEST).arg_true().cast(pl.Int64).to_numpy()
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
        )
    ]


def _as_written(
    cells: pl.Series, kind: ColumnKind, written: Column, source: SourceFile
) -> Inferred:
    form = "" if written.format == "auto" else written.format
    if kind == "ignored":
        form = _best_format(cells, written)
    elif kind == "datetime" and not form and cells.dtype == pl.String:
        forms = date_formats(cells)
        if len(forms) > 1:
            return Inferred(_described(cells, kind, ""), (_ambiguous(cells, forms, source),))
        form = forms[0] if forms else closest_format(cells)[0]
    described = _described(cells, kind, "written in the contract", form)
    if not len(cells) - cells.null_count():
        described = _described(cells, "ignored", "no training row has a value")
    return Inferred(described)


def _by_values(cells: pl.Series, source: SourceFile) -> Inferred:
    if cells.dtype.is_numeric():
        return Inferred(_described(cells, "numeric", "its type in the file"))
    if cells.dtype == pl.Datetime("us"):
        return Inferred(_described(cells, "datetime", "its type in the file"))
    if cells.dtype != pl.String:
        return Inferred(_described(cells, "ignored", f"it holds nested values ({cells.dtype})"))
    bad = to_numbers(cells).bad
    present = len(cells) - cells.null_count()
    if not len(bad):
        return Inferred(_described(cells, "numeric", "every value is a number"))
    if present - len(bad) >= MOSTLY * present:
        described = _described(cells, "numeric", "nearly every value is a number")
        return Inferred(described, (_unreadable(cells, bad, "numeric", source),))
    if forms := date_formats(cells):
        described = _described(cells, "datetime", f"every value is written {forms[0]}", forms[0])
        ambiguous = (_ambiguous(cells, forms, source),) if len(forms) > 1 else ()
        return Inferred(described, ambiguous)
    form, count = closest_format(cells)
    if count >= MOSTLY * present:
        described = _described(cells, "datetime", f"nearly every value is written {form}", form)
        return Inferred(
            described, (_unreadable(cells, to_moments(cells, form).bad, "datetime", source),)
        )
    return Inferred(_described(cells, "categorical", "its values are words"))


def _not_a_feature(cells: pl.Series, column: ColumnType) -> str:
    present = len(cells) - column.missing
    if column.distinct == 1 and not column.missing:
        return "constant: every row has the same value"
    if present < _FEWEST_TO_JUDGE:
        return ""
    if column.kind == "numeric":
        return _counter(cells, column)
    if column.kind != "categorical" or column.distinct <= MOSTLY_DISTINCT * present:
        return ""
    share = f"{column.distinct:,} different values in {present:,} rows"
    length, words = _typical_text(cells)
    if length > _FREE_TEXT_LENGTH or words >= _FREE_TEXT_WORDS:
        return f"free text: {share}"
    if column.distinct >= NEARLY_UNIQUE * present:
        return f"identifier: {share}"
    return f"values rarely repeat: {share}"


def _typical_text(cells: pl.Series) -> tuple[float, float]:
    """Mean characters and mean words of the values that are there."""
    present = cells.drop_nulls()
    words = present.str.count_matches(r"\S+").to_numpy()
    length = present.str.len_chars().to_numpy()
    return float(length.mean()), float(words.mean())


def _counter(cells: pl.Series, column: ColumnType) -> str:
    if column.missing or column.distinct < len(cells):
        return ""
    numbers = to_numbers(cells).series.to_numpy()
    if not (numbers == np.floor(numbers)).all():
        return ""
    if numbers[0] in (0, 1) and (np.diff(numbers) == 1).all():
        return "identifier: it counts the rows"
    if "id" in name_tokens(column.name):
        return "identifier: a different whole number in every row, and its name says id"
    return ""


def _described(cells: pl.Series, kind: Kind, reason: str, form: str = "") -> ColumnType:
    present = cells.drop_nulls()
    nested = cells.dtype.is_nested() or cells.dtype in (pl.Binary, pl.Object)
    distinct = 0 if nested else present.n_unique()
    example = "" if nested or not len(present) else str(to_labels(present.head(1))[0])
    return ColumnType(cells.name, kind, reason, cells.null_count(), distinct, example[:60], form)


def _best_format(cells: pl.Series, written: Column) -> str:
    if written.format != "auto":
        return written.format
    if cells.dtype != pl.String or not len(to_numbers(cells).bad):
        return ""
    forms = date_formats(cells)
    return forms[0] if len(forms) == 1 else ""


def best_typed(cells: pl.Series, form: str = "") -> pl.Series:
    """Cleaned cells as dates if `form` is given, else as numbers if all are, else as labels."""
    if form:
        return to_moments(cells, form).series
    if not (cells.dtype == pl.String or cells.dtype.is_numeric()):
        return cells
    numbers = to_numbers(cells)
    if len(cells) > cells.null_count() and not len(numbers.bad):
        return numbers.series
    return to_labels(cells)


def _unreadable(cells: pl.Series, bad: Integers, kind: Kind, source: SourceFile) -> Problem:
    spellings = to_labels(cells.gather(bad)).unique(maintain_order=True).to_list()
    what, wanted = (
        ("dates", "dates written alike") if kind == "datetime" else ("numbers", "numbers")
    )
    fix = (
        f"add the spelling to data.missing_values, set data.columns.{cells.name}.format, or its "
        "kind to categorical"
        if kind == "datetime"
        else f"add the spelling to data.missing_values, or set data.columns.{cells.name}.kind "
        "to categorical"
    )
    return Problem(
        f"some values of the column are not {what}",
        path=str(cells.name),
        found=f"{quoted(spellings)} in {source.rows_text(bad)}",
        expected=wanted,
        fix=fix,
        place=source.place(int(bad[0])),
    )


def _ambiguous(cells: pl.Series, forms: tuple[str, ...], source: SourceFile) -> Problem:
    return Problem(
        "the dates can be read in more than one way",
        path=str(cells.name),
        found=f"{cells.drop_nulls()[0]!r} as {' or '.join(forms)}",
        expected="one way of writing a date",
        fix=f"set data.columns.{cells.name}.format to one of them",
        place=source.place(),
    )
