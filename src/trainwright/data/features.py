"""Typed columns to model inputs. Fitted on the training rows only, kept as plain JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from trainwright.contract.data import Features as FeaturesSection
from trainwright.contract.section import settled
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json
from trainwright.data.categories import Vocabulary, fit_vocabulary
from trainwright.data.columns import ColumnType, value_problems
from trainwright.data.scaling import NumberState, fit_numbers
from trainwright.data.sources import FileVersion, SourceFile
from trainwright.data.table import Floats, TableInputs
from trainwright.data.values import Cleaning
from trainwright.data.wording import nearest, some

FORMAT = 1
_DATE_PARTS = ("year", "month", "day", "weekday", "hour")


@final
@dataclass(frozen=True, slots=True)
class DatePart:
    """One number of a date: `dteday` and `month` give the column `dteday (month)`."""

    column: str
    part: str

    @property
    def name(self) -> str:
        """The name of the numeric column."""
        return f"{self.column} ({self.part})"


@final
@dataclass(frozen=True, slots=True)
class Features:
    """Encodes rows as the training rows were encoded.

    `columns` are the typed feature columns, `dates` the date parts that differ between training
    rows, `numbers` the fitted imputation and scaling of numeric columns followed by date parts.
    """

    columns: tuple[ColumnType, ...]
    cleaning: Cleaning
    dates: tuple[DatePart, ...]
    numbers: NumberState
    vocabularies: tuple[Vocabulary, ...]

    @property
    def numeric_names(self) -> tuple[str, ...]:
        """The columns of `Inputs.numeric`."""
        names = (*_names(self.columns, "numeric"), *(date.name for date in self.dates))
        return (*names, *(f"{names[i]} (missing)" for i in self.numbers.indicated))

    @property
    def categorical_names(self) -> tuple[str, ...]:
        """The columns of `Inputs.categories`."""
        return tuple(vocabulary.name for vocabulary in self.vocabularies)

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """The number of codes of each categorical column."""
        return tuple(vocabulary.cardinality for vocabulary in self.vocabularies)

    def transform(self, frame: pl.DataFrame) -> TableInputs:
        """Encode typed rows (from `read`, or a `Part.frame`)."""
        values = _number_matrix(frame, self.columns, self.dates)
        codes = [vocabulary.encode(frame[vocabulary.name]) for vocabulary in self.vocabularies]
        shape = (frame.height, 0)
        categories = np.stack(codes, axis=1) if codes else np.empty(shape, dtype=np.int64)
        return TableInputs(self.numbers.transform(values), categories)

    def read(self, frame: pl.DataFrame, source: str = "the rows") -> pl.DataFrame:
        """Type new rows (all text, or typed) as the training file was typed.

        Other columns are left out, and the order of the columns does not matter.

        Raises:
            DataMistake: a feature column is missing, or values are not of its kind.
        """
        nowhere = np.empty(0, dtype=np.int64)
        file = SourceFile(frame, FileVersion(source, "", 0, frame.height), nowhere)
        typed: list[pl.Series] = []
        problems: list[Problem] = []
        for column in self.columns:
            if column.name not in frame.columns:
                problems.append(_missing_column(column, frame.columns, file))
                continue
            cells = self.cleaning.cells(self._spelled(frame[column.name]))
            series, found = value_problems(cells, column, file)
            typed.append(series)
            problems += found
        if problems:
            raise DataMistake(problems)
        return pl.DataFrame(typed)

    def _spelled(self, series: pl.Series) -> pl.Series:
        """Booleans as the training file spelled them: `True` in a CSV written by Python."""
        if series.dtype != pl.Boolean:
            return series
        kept = [set(v.kept) | set(v.rare) for v in self.vocabularies if v.name == series.name]
        for yes, no in (("True", "False"), ("TRUE", "FALSE")):
            if kept and kept[0] & {yes, no}:
                labels = pl.Series([yes, no])
                return series.replace_strict([True, False], labels).alias(series.name)
        return series

    def to_json(self) -> Json:
        """What `from_json` reads; both encode every row to the same bits."""
        return {
            "format": FORMAT,
            "columns": [column.to_json() for column in self.columns],
            "cleaning": self.cleaning.to_json(),
            "dates": [[date.column, date.part] for date in self.dates],
            "numbers": self.numbers.to_json(),
            "vocabularies": [vocabulary.to_json() for vocabulary in self.vocabularies],
        }

    @classmethod
    def from_json(cls, value: Json) -> Features:
        """The features that `to_json` wrote.

        Raises:
            ValueError: another format.
        """
        if value.get("format") != FORMAT:
            raise ValueError(f"features of format {value.get('format')!r}, expected {FORMAT}")
        return cls(
            columns=tuple(ColumnType.from_json(column) for column in value["columns"]),
            cleaning=Cleaning.from_json(value["cleaning"]),
            dates=tuple(DatePart(column, part) for column, part in value["dates"]),
            numbers=NumberState.from_json(value["numbers"]),
            vocabularies=tuple(Vocabulary.from_json(item) for item in value["vocabularies"]),
        )


def fit_features(
    train: pl.DataFrame,
    columns: tuple[ColumnType, ...],
    cleaning: Cleaning,
    section: FeaturesSection,
) -> Features:
    """Fit on typed training rows. `columns` are the feature columns; those of other kinds than
    numeric, categorical and datetime must have been left out."""
    dates = tuple(
        DatePart(name, part)
        for name in _names(columns, "datetime")
        for part in _DATE_PARTS
        if _date_part(train, DatePart(name, part)).drop_nulls().n_unique() > 1
    )
    values = _number_matrix(train, columns, dates)
    return Features(
        columns=columns,
        cleaning=cleaning,
        dates=dates,
        numbers=fit_numbers(values, settled(section.numeric), settled(section.impute)),
        vocabularies=tuple(
            fit_vocabulary(train[name], section.rare_below, section.max_categories)
            for name in _names(columns, "categorical")
        ),
    )


def _names(columns: tuple[ColumnType, ...], kind: str) -> list[str]:
    return [column.name for column in columns if column.kind == kind]


def _date_part(frame: pl.DataFrame, date: DatePart) -> pl.Series:
    times = frame[date.column].dt
    match date.part:
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
        case _:
            raise AssertionError(f"no part of a date: {date.part}")


def _number_matrix(
    frame: pl.DataFrame, columns: tuple[ColumnType, ...], dates: tuple[DatePart, ...]
) -> Floats:
    """Numeric columns and date parts, float64 [N, F], NaN for missing."""
    series = [frame[name] for name in _names(columns, "numeric")]
    series += [_date_part(frame, date) for date in dates]
    if not series:
        return np.empty((frame.height, 0), dtype=np.float64)
    return np.stack([s.cast(pl.Float64).fill_null(np.nan).to_numpy() for s in series], axis=1)


def _missing_column(column: ColumnType, names: list[str], file: SourceFile) -> Problem:
    near = nearest(column.name, names)
    return Problem(
        f"there is no column {column.name!r}, which the model was trained on",
        path=column.name,
        found=f"columns {some(names, 8)}",
        expected=f"a {column.kind} column, for example {column.example!r}",
        fix=f"rename {near!r}" if near else "add the column, empty where it is not known",
        place=file.place(),
    )
