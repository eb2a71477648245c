"""What a column leaves open is proposed, and words, codes and honest numbers are left alone."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from doubtful_columns import ROWS, doubtful_columns
from trainwright.contract.sections.data.table_data import Column, TableData
from trainwright.core.errors import DataMistake
from trainwright.data.base.cleaned_cells import Cells
from trainwright.data.base.parse_cells import parse_moments
from trainwright.data.columns.doubts import find_doubt
from trainwright.data.columns.resolve_doubts import said, with_doubts
from trainwright.data.read_table import RawTable, read_table

SHAPES = doubtful_columns()


def table(folder: Path, name: str, cells: list[str]) -> TableData:
    target = [str(at % 2) for at in range(len(cells))]
    beside = [str((at * 7) % 11) for at in range(len(cells))]
    frame = pl.DataFrame({name: cells, "beside": beside, "y": target})
    frame.write_csv(folder / "rows.csv")
    return TableData(path="rows.csv", target="y")


def column(raw: RawTable, name: str) -> tuple[str, list[object]]:
    (found,) = [one for one in raw.columns if one.name == name]
    values = raw.frames["train"][name]
    if found.kind == "datetime":
        values = values.dt.date()
    return found.kind, values.to_list()


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_proposed_reads_the_column(tmp_path: Path, name: str) -> None:
    shape = SHAPES[name]
    section = table(tmp_path, name, list(shape.cells))
    raw = read_table(section, tmp_path)
    kind, values = column(raw, name)
    assert kind == shape.kind
    assert values[: len(shape.read)] == list(shape.read)
    sure = name in ("plain", "swapped", "month")
    assert [one.column for one in raw.facts.doubts] == ([] if sure else [name])
    # What was proposed, written down, reads the same and leaves nothing open.
    again = read_table(with_doubts(section, raw.facts.doubts), tmp_path)
    assert again.facts.doubts == ()
    assert column(again, name) == (kind, values)


@pytest.mark.parametrize(
    "cells",
    [
        [f"A/5 {at}" if at % 4 == 0 else str(110000 + at) for at in range(ROWS)],
        [f"C{at % 90}" for at in range(ROWS)],
        [f"{at % 9}-{at % 9 + 5}" for at in range(ROWS)],
        ["Level 3" if at % 2 else "Level 4" for at in range(ROWS)],
        [f"{at % 9} {'kg' if at % 2 else 'lb'}" for at in range(ROWS)],
        [("yes", "no", "unknown")[at % 3] for at in range(ROWS)],
        [f"{at % 24:02d}:30" for at in range(ROWS)],
        [f"10.0.{at % 7}.{at % 90}" for at in range(ROWS)],
        [f"patient {at % 30}" for at in range(ROWS)],
        [("one", "many")[at % 2] for at in range(ROWS)],
        [f"{at % 12 + 1} Main Street" for at in range(ROWS)],
        [f"{at % 12 + 1:02d}" for at in range(ROWS)],
        [f"{at:05d}" for at in range(ROWS)],
        [f"{at % 40 / 4:.2f}" for at in range(ROWS)],
        [str(at * 0.37) if at % 2 else f"{at * 0.37:.2f}" for at in range(ROWS)],
        ["7" if at == 30 else f"{at % 12 + 1:02d}" for at in range(ROWS)],
        [f"{at % 90}.0" if at % 3 else str(at % 90) for at in range(ROWS)],
    ],
)
def test_words_and_codes_are_left_alone(cells: list[str]) -> None:
    assert find_doubt(Cells(pl.Series("a", cells))) is None


@pytest.mark.parametrize(("sign", "code"), [("€", "EUR"), ("£", "GBP"), ("¥", "JPY"), ("$", "usd")])
def test_sign_and_code_of_a_currency_are_one_unit(sign: str, code: str, tmp_path: Path) -> None:
    cells = [f"{sign}{at}.50" if at % 2 else f"{at}.50 {code}" for at in range(ROWS)]
    section = table(tmp_path, "price", cells)
    raw = read_table(section, tmp_path)
    assert column(raw, "price") == ("numeric", [at + 0.5 for at in range(ROWS)])
    again = read_table(with_doubts(section, raw.facts.doubts), tmp_path)
    assert column(again, "price") == column(raw, "price")


@pytest.mark.parametrize(("sign", "code"), [("$", "AUD"), ("¥", "CNY"), ("€", "GBP")])
def test_a_sign_that_may_mean_another_currency_stays_apart(sign: str, code: str) -> None:
    cells = [f"{sign}{at}.50" if at % 2 else f"{at}.50 {code}" for at in range(ROWS)]
    found = find_doubt(Cells(pl.Series("price", cells)))
    assert found is not None
    assert found.settings.kind == "ignored"


def test_an_ambiguous_date_is_read_so_that_the_dates_lie_together() -> None:
    cells = [f"{at % 9 + 1:02d}/03/2021" for at in range(ROWS)]
    found = find_doubt(Cells(pl.Series("day", cells)))
    assert found is not None
    assert found.settings.format == "%d/%m/%Y"
    assert "%m/%d/%Y" in found.reason


def test_dates_that_may_lie_ahead_stay_ahead_and_written_centuries_hold(tmp_path: Path) -> None:
    due = [date(2000, 1, 3) + timedelta(days=55 * at) for at in range(ROWS)]
    section = table(tmp_path, "due", [f"{one:%d.%m.%y}" for one in due])
    assert column(read_table(section, tmp_path), "due") == ("datetime", due)
    written = {"due": Column(kind="datetime", format="%d.%m.%y until 1999")}
    raw = read_table(section.model_copy(update={"columns": written}), tmp_path)
    assert raw.facts.doubts == ()
    assert column(raw, "due")[1][0] == date(1900, 1, 3)


@pytest.mark.parametrize("year", [1930, 1936, 1951])
def test_years_that_would_go_on_for_a_century_are_past(year: int, tmp_path: Path) -> None:
    """Of `30` to `25` those from 30 on would be 2030 to 2069, and no year between is missing."""
    apart = (date(2025, 12, 1) - date(year, 1, 5)) // ROWS
    built = [date(year, 1, 5) + at * apart for at in range(ROWS)]
    for written in ({}, {"built": Column(kind="datetime", format="%d.%m.%y")}):
        section = table(tmp_path, "built", [f"{one:%d.%m.%y}" for one in built])
        raw = read_table(section.model_copy(update={"columns": written}), tmp_path)
        assert column(raw, "built") == ("datetime", built)
        (doubt,) = raw.facts.doubts
        assert "two-digit years would put" in doubt.reason


def test_a_form_that_never_reads_a_year_of_two_digits_as_the_first_century() -> None:
    read = parse_moments(pl.Series(["03/04/21", "03/04/2021"]), "%d/%m/%Y")
    assert [one and one.date() for one in read] == [None, date(2021, 4, 3)]


def test_what_is_written_is_strict(tmp_path: Path) -> None:
    shape = SHAPES["height"]
    section = table(tmp_path, "height", list(shape.cells))
    strict = section.model_copy(update={"columns": {"height": Column(kind="numeric")}})
    with pytest.raises(DataMistake, match="not numbers"):
        read_table(strict, tmp_path)


def test_a_column_in_files_is_read_as_in_memory(tmp_path: Path) -> None:
    shape = SHAPES["salary"]
    section = table(tmp_path, "salary", list(shape.cells))
    in_files = section.model_copy(
        update={"reading": section.reading.model_copy(update={"rows_in": "files"})}
    )
    one, other = read_table(section, tmp_path), read_table(in_files, tmp_path)
    assert said(one.facts.doubts[0].settings) == said(other.facts.doubts[0].settings)
    assert np.array_equal(one.frames["train"]["salary"], other.frames["train"]["salary"])


def test_a_target_beside_a_unit_is_a_number(tmp_path: Path) -> None:
    cells = [f"${at * 1000:,}" for at in range(ROWS)]
    pl.DataFrame({"y": cells, "x": [at * 7 % 11 for at in range(ROWS)]}).write_csv(
        tmp_path / "rows.csv"
    )
    raw = read_table(TableData(path="rows.csv", target="y"), tmp_path)
    assert raw.facts.target.kind == "numbers"
    assert raw.frames["train"]["y"][5] == 5000.0
