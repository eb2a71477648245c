"""Numbers with commas: `1.234,5` and `1,234.5` are what a person means by them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from trainwright.contract.data import Column, TableData
from trainwright.contract.sources import Reading
from trainwright.core.errors import DataMistake
from trainwright.data.commas import how_written
from trainwright.data.reading import read_table
from trainwright.data.sources import read_source
from trainwright.planner.first import propose_contract

DECIMAL = Reading(numbers="decimal_comma", cache="off")
THOUSANDS = Reading(numbers="thousands_comma", cache="off")


def cells(folder: Path, column: list[str], reading: Reading) -> list[str | None]:
    (folder / "a.csv").write_text("\n".join(["x;other", *(f"{cell};w" for cell in column)]))
    return read_source("a.csv", folder, reading=reading).frame["x"].to_list()


def test_a_decimal_comma_becomes_a_point(tmp_path: Path) -> None:
    written = ["1,5", "-0,25", " 3,0 ", "1.234,5", "1.234.567,89", "12", "1.200", ",5", "+7,1"]
    meant = ["1.5", "-0.25", "3.0", "1234.5", "1234567.89", "12", "1200", ".5", "+7.1"]
    assert cells(tmp_path, written, DECIMAL) == meant


def test_blanks_and_apostrophes_between_thousands(tmp_path: Path) -> None:
    written = ["1 234,5", "1\u00a0234,5", "1\u202f234\u202f567,5", "1'234,5", "1\u2019234,5"]
    meant = ["1234.5", "1234.5", "1234567.5", "1234.5", "1234.5"]
    assert cells(tmp_path, written, DECIMAL) == meant


def test_what_is_no_number_stays(tmp_path: Path) -> None:
    words = ["01.02.2023", "a,b", "12,", "1,2,3", "Bern 3,5", "0.123.456", "12 34,5", "n/a"]
    assert cells(tmp_path, words, DECIMAL) == words


def test_a_column_of_decimal_points_stays(tmp_path: Path) -> None:
    points = ["0.5", "1.125", "12.25"]
    assert cells(tmp_path, points, DECIMAL) == points


@pytest.mark.parametrize(
    ("column", "reading", "wrong"),
    [
        (["1,5", "2.5", "3,5"], DECIMAL, "2.5"),
        (["1,5", "1,234.5"], DECIMAL, "1,234.5"),
        (["1,234", "12,5", "1,000"], THOUSANDS, "12,5"),
    ],
)
def test_two_ways_in_a_column_are_refused(
    tmp_path: Path, column: list[str], reading: Reading, wrong: str
) -> None:
    with pytest.raises(DataMistake) as caught:
        cells(tmp_path, column, reading)
    (problem,) = caught.value.problems
    assert problem.path == "x"
    assert problem.found == repr(wrong)
    assert problem.place.line == column.index(wrong) + 2


def test_commas_of_thousands_go(tmp_path: Path) -> None:
    written = ["1,234", "-1,234,567.5", "950", "0.5", "1,5x", "x"]
    meant = ["1234", "-1234567.5", "950", "0.5", "1,5x", "x"]
    assert cells(tmp_path, written, THOUSANDS) == meant


def test_a_name_in_unicode_and_a_missing_cell(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Größe in m².x;y\n1,5;a\n;b\n2,25;c\n")
    frame = read_source("a.csv", tmp_path, reading=DECIMAL).frame
    assert frame["Größe in m².x"].to_list() == ["1.5", None, "2.25"]


@pytest.mark.parametrize(
    ("column", "way"),
    [
        (["1,5", "2,25", "3"], "decimal_comma"),
        (["1.234,5", "1.200"], "decimal_comma"),
        (["1,234", "950", "12,500.5"], "thousands_comma"),
        (["1.5", "2.5"], "plain"),
        (["1,5", "1,234.5"], "plain"),
        (["a,b", "1,5", "c"], "plain"),
        ([" ", ""], "plain"),
    ],
)
def test_how_a_column_is_written(column: list[str], way: str) -> None:
    assert how_written(pl.DataFrame({"x": column, "y": ["w"] * len(column)})) == way


def test_init_reads_decimal_commas_as_numbers(tmp_path: Path) -> None:
    rows = [f"{i},{i * 7 % 100:02d};{'ja' if i % 3 else 'nein'}" for i in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["Umsatz;Kauf", *rows]))
    text = propose_contract(str(tmp_path / "a.csv"), "Kauf", tmp_path)
    assert "numbers: decimal_comma" in text
    assert "exclude" not in text
    assert "positive: ja" in text


def test_numbers_with_commas_in_a_numeric_column_name_the_setting(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x;y\n1,5;a\n2,5;b\n3,5;a\n")
    columns = {"x": Column(kind="numeric")}
    with pytest.raises(DataMistake) as caught:
        read_table(TableData(path="a.csv", target="y", columns=columns), tmp_path)
    assert "data.reading.numbers: decimal_comma" in caught.value.problems[0].fix
