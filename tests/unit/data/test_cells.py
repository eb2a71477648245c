"""Cells in memory are cleaned once, and free it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from trainwright.contract.sections.data.table_data import TableData
from trainwright.data.base.cleaned_cells import Cells, Cleaning
from trainwright.data.base.parse_cells import date_formats, to_moments
from trainwright.data.read_table import read_table


def test_what_is_counted_stays_when_the_cells_are_let_go() -> None:
    made = []

    def clean(series: pl.Series) -> pl.Series:
        made.append(len(series))
        return series.str.strip_chars()

    cells = Cells(pl.Series("a", [" 1", "2 ", None, "2"]), clean)
    assert cells.not_numbers == 0
    cells = cells.counted()
    assert (cells.missing, cells.distinct) == (1, 2)
    assert cells.numbers.series.to_list() == [1.0, 2.0, None, 2.0]
    assert made.count(4) == 1
    assert cells.whole().to_list() == ["1", "2", None, "2"]


def test_a_column_of_numbers_is_cleaned_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = 100
    frame = pl.DataFrame(
        {"a": [i % 50 * 0.37 for i in range(rows)], "y": ["yes", "no"] * (rows // 2)}
    )
    frame.write_csv(tmp_path / "rows.csv")
    cleaned: list[str] = []
    clean = Cleaning.cells

    def counted(self: Cleaning, series: pl.Series) -> pl.Series:
        cleaned.extend([series.name] if len(series) == rows else [])
        return clean(self, series)

    monkeypatch.setattr(Cleaning, "cells", counted)
    section = TableData.model_validate({"path": "rows.csv", "target": "y"})
    raw = read_table(section, tmp_path)
    assert raw.frames["train"]["a"].to_list() == pytest.approx(frame["a"].to_list())
    # Once in all, and the first slice for an example: so few rows are one.
    assert cleaned.count("a") <= 2


@pytest.mark.parametrize(
    ("written", "form", "first"),
    [
        (["2020-01", "2021-12"], "%Y-%m", "2020-01-01"),
        (["2020 Jan", "2021 December"], "%Y %B", "2020-01-01"),
        (["June 22, 2018", "Jul 3, 2018"], "%B %d, %Y", "2018-06-22"),
        (["1991 W06", "2020 W53"], "%G W%V", "1991-02-04"),
        (["1991-W06", "2020-W53"], "%G-W%V", "1991-02-04"),
        (["1998 Q2", "1999 Q4"], "%Y Q%q", "1998-04-01"),
        (["1998Q2", "1999Q4"], "%YQ%q", "1998-04-01"),
        (["1998-Q2", "1999-Q4"], "%Y-Q%q", "1998-04-01"),
    ],
)
def test_months_quarters_and_weeks_are_dates(written: list[str], form: str, first: str) -> None:
    cells = pl.Series("when", written)
    assert date_formats(cells) == (form,)
    read = to_moments(cells, form).series
    assert (read.null_count(), str(read.dt.date()[0])) == (0, first)
    assert not len(date_formats(pl.Series(["1998 Q5", "1999 W61"])))
