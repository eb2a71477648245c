"""Validation of the strftime codes in `data.columns.<name>.format` against polars."""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl
from polars.exceptions import ComputeError

from trainwright.contract.key_paths import join
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import DataMistake, Problem
from trainwright.data.base.cells.parse_cells import FORMS, SERIAL, parse_moments

_FRACTION = re.compile(r"\.?(?<!%)%f")
"""Python's microseconds; polars reads an integer of nanoseconds, so `.5` would be 5 ns."""
_CUT_OFF = re.compile(r"%\.?[369](?!f)")
"""`%3f` without its letter, at which polars panics."""


def check_formats(section: TableData) -> None:
    """Reject formats that parse no value.

    Raises:
        DataMistake: with every one of them.
    """
    problems: list[Problem] = []
    for name, column in section.columns.items():
        path = join("data.columns", name, "format")
        for form in column.format.split(FORMS):
            if form not in ("auto", SERIAL):
                problems += _problems(form, column.format, path)
    if problems:
        raise DataMistake(problems)


def _problems(form: str, whole: str, path: str) -> Iterator[Problem]:
    if cut := _CUT_OFF.search(form):
        yield Problem(
            "the format has an unknown code",
            path=path,
            found=f"{cut[0]} in {form}",
            expected=f"{cut[0]}f for a fraction of a second",
            fix=f'write {path}: "{whole.replace(cut[0], f"{cut[0]}f")}"',
        )
        return
    if fraction := _FRACTION.search(form):
        yield Problem(
            "the format would read the fraction of a second as nanoseconds",
            path=path,
            found=f"{fraction[0]} in {form}",
            expected="%.f for the point and the digits after it",
            fix=f'write {path}: "{whole.replace(fraction[0], "%.f")}"',
        )
        return
    if said := _refused(form):
        yield Problem(
            "no date can be read with the format",
            path=path,
            found=f"{form}: {said}",
            expected="hours and minutes together, %I with %p, and %S only with both",
            fix=f"correct the format, and the file where it has hours alone, or set "
            f"{path.removesuffix('format')}kind to categorical and remove format",
        )


def _refused(form: str) -> str:
    """The objection of polars to a format; empty if valid."""
    try:
        parse_moments(pl.Series(["0"]), form)
    except ComputeError as error:
        return str(error).partition("\n")[0].removeprefix("Invalid format string: ")
    return ""
