"""Slices: named subsets of the evaluation rows with a floor for the metric."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
import polars as pl

from trainwright.contract.sections.slices import Slice
from trainwright.core.errors import Mistake, Problem
from trainwright.data.base.table import Integers

MOST_VALUES = 100
"""Maximum number of slices of a column."""


@dataclass(frozen=True, slots=True)
class SliceRows:
    """Rows of one slice: their positions in the frame, and its index in the contract."""

    name: str
    number: int
    rows: Integers


def find_slices(slices: Sequence[Slice], frame: pl.DataFrame) -> tuple[SliceRows, ...]:
    """Rows of every slice of the contract, in its order; values of a column are sorted.

    A missing value is a slice of its own, `column=missing`. Called on the training rows before
    training, to find mistakes early.

    Raises:
        Mistake: an unknown column or invalid condition, all of them at once.
    """
    found: list[SliceRows] = []
    problems: list[Problem] = []
    for number, section in enumerate(slices):
        try:
            if section.column:
                found.extend(_by_column(section, number, frame))
            else:
                found.append(_by_condition(section, number, frame))
        except Mistake as mistake:
            problems.extend(mistake.problems)
    if problems:
        raise Mistake(problems)
    return tuple(found)


def _by_column(section: Slice, number: int, frame: pl.DataFrame) -> list[SliceRows]:
    path = f"slices.{number}.column"
    name = section.column
    if name not in frame.columns:
        raise Mistake(_no_column(path, name, frame))
    column = frame[name]
    count = column.n_unique()
    if count > MOST_VALUES:
        raise Mistake(
            Problem(
                f"the column {name!r} has too many values for a slice each",
                path=path,
                found=f"{count:,} values",
                expected=f"at most {MOST_VALUES}",
                fix=f"slice by a condition instead, for example where: {name} > ...",
            )
        )
    values = column.unique().drop_nulls().sort()
    parts = [
        SliceRows(f"{name}={_show(value)}", number, _positions(column == value)) for value in values
    ]
    if column.null_count():
        parts.append(SliceRows(f"{name}=missing", number, _positions(column.is_null())))
    return parts


def _by_condition(section: Slice, number: int, frame: pl.DataFrame) -> SliceRows:
    path = f"slices.{number}.where"
    try:
        answer = frame.select(pl.sql_expr(section.where).alias("answer"))["answer"]
    except pl.exceptions.ColumnNotFoundError as error:
        quoted = re.search(r'"([^"]*)"', str(error))
        missing = quoted.group(1) if quoted else section.where
        raise Mistake(_no_column(path, missing, frame)) from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise Mistake(
            Problem(
                "the condition cannot be computed",
                path=path,
                found=f"{section.where} ({_first_line(error)})",
                expected="an SQL condition over columns of the data, for example age >= 65",
                fix="columns: " + ", ".join(frame.columns[:30]),
            )
        ) from error
    if answer.dtype != pl.Boolean or len(answer) != frame.height:
        raise Mistake(
            Problem(
                "the condition is not true or false for each row",
                path=path,
                found=f"{section.where} gives {len(answer):,} x {answer.dtype}",
                expected="a condition such as age >= 65 AND sex = 'Female'",
                fix="write a comparison",
            )
        )
    # A condition on a missing value is neither true nor false; the row is not in the slice.
    name = section.name or section.where
    return SliceRows(name, number, _positions(answer.fill_null(value=False)))


def _no_column(path: str, name: str, frame: pl.DataFrame) -> Problem:
    near = get_close_matches(name, frame.columns, n=1)
    return Problem(
        f"there is no column {name!r}",
        path=path,
        found=name,
        expected="one of " + ", ".join(frame.columns[:30]),
        fix=f"did you mean {near[0]!r}?" if near else "name a column of the data",
    )


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0][:200]


def _show(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _positions(chosen: pl.Series) -> Integers:
    return np.flatnonzero(chosen.fill_null(value=False).to_numpy()).astype(np.int64)
