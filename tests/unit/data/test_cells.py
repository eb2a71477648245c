"""Cells in memory are cleaned once, and free it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from command import command
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


STORED = {
    "pandas.period": pl.Series([i % 5 for i in range(60)], dtype=pl.Int64),
    "arrow.bool8": pl.Series([0, 1] * 30, dtype=pl.Int8),
    "arrow.json": pl.Series(['{"a": 1}', '{"a": 2}'] * 30),
    "arrow.fixed_shape_tensor": pl.Series([[1.0, 2.0]] * 60, dtype=pl.Array(pl.Float64, 2)),
    "ours.money": pl.Series([f"{i % 7}.25" for i in range(60)]).cast(pl.Decimal(10, 2)),
}


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("source", ["rows.parquet", "rows.arrow", "frame://rows"])
def test_arrow_extensions_are_read_by_their_storage(name: str, source: str, tmp_path: Path) -> None:
    stored = STORED[name].alias("a")
    extended = stored.ext.to(pl.Extension(name, stored.dtype, "{}"))
    frame = pl.DataFrame([extended, pl.Series("b", range(60)) % 7, pl.Series("y", ["u", "v"] * 30)])
    frame.write_parquet(tmp_path / "rows.parquet")
    frame.write_ipc(tmp_path / "rows.arrow")
    section = TableData.model_validate({"path": source, "target": "y"})
    raw = read_table(section, tmp_path, {"rows": frame})
    assert raw.columns[0].kind == {
        "arrow.json": "categorical",
        "arrow.fixed_shape_tensor": "ignored",
    }.get(name, "numeric")
    assert raw.frames["train"]["a"].equals(Cleaning((), {}).cells(stored))


FAR = {
    "year 10031": pl.Series([254 * 10**12, 0, 10**9], dtype=pl.Int64).cast(
        pl.Datetime("ms", "UTC")
    ),
    "beyond microseconds": pl.Series([2**62, 0, 10**9], dtype=pl.Int64).cast(pl.Datetime("ms")),
    "before Christ": pl.Series([-(2**62), 0, 10**9], dtype=pl.Int64).cast(pl.Datetime("us")),
    "days": pl.Series([2**30, 0, 9], dtype=pl.Int32).cast(pl.Date),
}


@pytest.mark.parametrize("name", FAR)
def test_dates_outside_the_calendar_are_refused_with_their_rows(name: str, tmp_path: Path) -> None:
    columns = [FAR[name].gather([1, 2, 0] * 20).alias("a"), pl.Series("b", range(60)) % 7]
    pl.DataFrame([*columns, pl.Series("y", ["u", "v"] * 30)]).write_parquet(
        tmp_path / "rows.parquet"
    )
    ran = command("init", tmp_path / "rows.parquet", "--target", "y", "-o", tmp_path / "c.yaml")
    assert (ran.code, (tmp_path / "c.yaml").exists()) == (2, False)
    assert "in rows 3, 6, 9, 12, 15 and 15 more" in ran.err
    assert "set data.columns.a.unreadable to missing" in ran.err
    columns = {"a": {"unreadable": "missing"}}
    section = TableData.model_validate({"path": "rows.parquet", "target": "y", "columns": columns})
    raw = read_table(section, tmp_path)
    assert (raw.columns[0].kind, raw.frames["train"]["a"].null_count()) == ("datetime", 20)
    ignored = section.model_copy(update={"columns": {}, "exclude": ("a",)})
    assert read_table(ignored, tmp_path).frames["train"]["a"].null_count() == 20
