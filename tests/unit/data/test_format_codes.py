"""Formats of dates: what polars could only refuse by an exception is a mistake beforehand."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.tiers import times
from trainwright.contract.sections.data.table_data import Column, TableData
from trainwright.core.errors import DataMistake, Problem
from trainwright.data.base import parse_cells
from trainwright.data.base.parse_cells import DATE_FORMATS, parse_moments
from trainwright.data.columns.doubtful_dates import check_formats

CODES = [*(f"%{letter}" for letter in "aAbBcCdDeFgGhHIjklmMnpPqQrRsSTuUVwWxXyYzZ+%:vfoEJKLN")]
CODES += ["%3f", "%6f", "%.f", "%.9f", "%:z", "%#z", "%-d", "%_d", "%0H", "%3", "%.6", "%"]
LITERALS = ["", "-", "/", " ", ":", ".", "T", "é", "日", "3"]
FORMATS = st.lists(
    st.tuples(
        st.sampled_from([*CODES, *(f"%{letter}" for letter in "YmdHMSYmdHMS")]),
        st.sampled_from(LITERALS),
    ),
    max_size=6,
).map(lambda pairs: "".join(code + literal for code, literal in pairs))
VALUES = pl.Series(
    ["2020-01-31 10:20:30", "31.1.20", "20203", "10", "", " ", "é日", "2020-01-31T10:20:30.5Z"]
)


def problems_of(form: str) -> list[Problem]:
    section = TableData(path="rows.csv", columns={"day.of": Column(kind="datetime", format=form)})
    try:
        check_formats(section)
    except DataMistake as mistake:
        return list(mistake.problems)
    return []


@settings(max_examples=times(100, 400), deadline=None)
@given(FORMATS)
def test_a_format_that_is_taken_ends_in_no_exception(form: str) -> None:
    if not problems_of(form):
        assert len(parse_moments(VALUES, form)) == len(VALUES)


@pytest.mark.parametrize(
    ("form", "found", "fix"),
    [
        ("%d-%H-%m-%Y", "both hour and minute", 'set data.columns."day.of".kind to categorical'),
        ("%Y-%m-%d | %I:%M", "12-hour", "correct the format"),
        ("%Y-%m-%d %S", "no hours", "correct the format"),
        ("%Y%3", "%3 in %Y%3", 'write data.columns."day.of".format: "%Y%3f"'),
        ("%H:%M:%S.%f", ".%f in", 'write data.columns."day.of".format: "%H:%M:%S%.f"'),
        ("%F | %T%f", "%f in %T%f", 'write data.columns."day.of".format: "%F | %T%.f"'),
    ],
)
def test_what_no_date_can_be_read_with(form: str, found: str, fix: str) -> None:
    (problem,) = problems_of(form)
    assert problem.path == 'data.columns."day.of".format'
    assert found in problem.found
    assert fix in problem.fix


@pytest.mark.parametrize("form", [*DATE_FORMATS, "auto", "excel", "excel | %d/%m/%y", "%s", "%3f"])
def test_formats_that_are_taken(form: str) -> None:
    assert not problems_of(form)


def test_words_without_a_digit_are_tried_with_no_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """To try all formats took longer than all else that is found out about a column of words."""
    tried: list[str] = []

    def parse(cells: pl.Series, form: str) -> pl.Series:
        tried.append(form)
        return parse_moments(cells, form)

    monkeypatch.setattr(parse_cells, "parse_moments", parse)
    words = pl.Series(["May", "-", " ", "١٢٣", "yes"])
    assert parse_cells.date_formats(words) == ()
    assert parse_cells.closest_format(words, [words]) == ("", 0)
    assert tried == []
    some = pl.Series(["May", "2024-05-01", "2024-05-02"])
    assert parse_cells.date_formats(some) == ()
    assert parse_cells.closest_format(some, [some]) == ("%Y-%m-%d", 2)


@pytest.mark.parametrize("form", DATE_FORMATS)
def test_no_format_parses_words_without_a_digit(form: str) -> None:
    words = pl.Series(["May", "-", " ", "", "yes", "- -", "May , ", "١٢٣", "//", "T::", "Z"])
    assert parse_moments(words, form).null_count() == len(words)
