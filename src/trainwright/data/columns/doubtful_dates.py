"""Mixed, ambiguous and impossible dates, and the formats of dates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import polars as pl
from polars.exceptions import ComputeError

from trainwright.contract.key_paths import join
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import DataMistake, Problem
from trainwright.data.base.parse_cells import DATE_FORMATS, FORMS, SERIAL, parse_moments
from trainwright.data.columns.column_kinds import name_tokens

MORE_FORMATS = (
    "%Y/%m",
    "%m/%Y",
    "%b %Y",
    "%B %Y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d.%m.%y",
    "%d-%m-%y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%b-%y",
    "%d %b %y",
    "%B %d %Y",
    "%b %d %Y",
    "%A, %B %d, %Y",
    "%m/%d/%Y %I:%M %p",
    "%m/%d/%Y %I:%M:%S %p",
    "%d/%m/%Y %I:%M %p",
    "%Y%m%d",
)
"""Formats that are proposed, but never applied silently."""

_MOSTLY = 0.9
_ADDS = 0.002
_MOST_FORMS = 4
_LOOKED_AT = 300
_LIKE_A_DATE = r"(?i)^(?:\d{1,4}[-/. ]|\d{8}$|\d{5}(?:\.\d+)?$|[a-z]{3,9}\.?[ ,-]\s*\d)"
_WORDS = frozenset({"date", "datetime", "day", "dt", "timestamp", "time"})
_SERIAL_VALUES = r"^[2-6]\d{4}(?:\.\d+)?$"


@final
@dataclass(frozen=True, slots=True)
class DateForms:
    """Proposed formats of a date column, the reason, the values that none of them parses, and
    whether the choice is unambiguous."""

    form: str
    reason: str
    unread: pl.Series
    is_sure: bool


def find_dates(name: str, values: pl.Series, counts: pl.Series) -> DateForms | None:
    """Date formats of the distinct `values` of a column with their row `counts`; None if they are
    not dates."""
    first = values.head(_LOOKED_AT)
    if float(first.str.contains(_LIKE_A_DATE).to_numpy().mean()) < _MOSTLY:
        return None
    forms = [*DATE_FORMATS, *MORE_FORMATS]
    if not name_tokens(name) & _WORDS:
        forms.remove("%Y%m%d")
    read = {form: parse_moments(values, form).is_not_null() for form in forms}
    serial = values.str.contains(_SERIAL_VALUES)
    if name_tokens(name) & _WORDS or not serial.all():
        read[SERIAL] = serial
    total = int(counts.sum())
    chosen: list[str] = []
    left = pl.repeat(value=True, n=len(values), eager=True)
    while len(chosen) < _MOST_FORMS and left.any():
        best = max(read, key=lambda form: int(counts.filter(read[form] & left).sum()))
        rows = int(counts.filter(read[best] & left).sum())
        if rows < max(1, _ADDS * total):
            break
        chosen.append(best)
        left = left & ~read[best]
    if not chosen or int(counts.filter(~left).sum()) < _MOSTLY * total:
        return None
    if len(chosen) == 1 and not left.any():
        return _of_one_form(values, [form for form in read if read[form].all()], left)
    other = _swapped(chosen[0])
    swapped = " (day and month swapped)" if other in chosen else ""
    reason = f"dates written {' and '.join(chosen)}{swapped}"
    return DateForms(FORMS.join(chosen), reason, left, is_sure=False)


def _of_one_form(values: pl.Series, forms: list[str], left: pl.Series) -> DateForms:
    known = [form for form in forms if form in DATE_FORMATS]
    if len(known) == 1:
        return DateForms(known[0], f"dates written {known[0]}", left, is_sure=True)
    chosen = min(known or forms, key=lambda form: _span(values, form))
    others = [form for form in (known or forms) if form != chosen]
    if not others:
        return DateForms(chosen, f"dates written {chosen}", left, is_sure=False)
    reason = (
        f"{values[0]!r} is read as {chosen}; it could also be {' or '.join(others)}, which would "
        "spread the dates further"
    )
    return DateForms(chosen, reason, left, is_sure=False)


def _span(values: pl.Series, form: str) -> tuple[float, int]:
    """Sort key: range of the dates in microseconds, then day first."""
    physical = parse_moments(values, form).to_physical().to_numpy()
    return float(physical.max() - physical.min()), int(form.startswith("%m"))


def _swapped(form: str) -> str:
    places = {"%d": "%m", "%m": "%d"}
    return re.sub("%[dm]", lambda part: places[part[0]], form)


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
