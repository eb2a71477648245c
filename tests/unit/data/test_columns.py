"""What a column is taken for, and why it is left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from trainwright.contract.sections.data.table_data import Column
from trainwright.data.base.cleaned_cells import Cells, Cleaning
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.columns.column_kinds import ColumnType, infer_column, name_tokens, type_column
from trainwright.data.sources.source_file import FileVersion, SourceFile

CLEANING = Cleaning(("", "NA"), {})
SOURCE = SourceFile(pl.DataFrame(), FileVersion("a.csv", "", 0, 0), np.empty(0, dtype=np.int64))


def infer(name: str, values: list[object], written: Column | None = None) -> ColumnType:
    cells = CLEANING.cells(pl.Series(name, values, strict=False))
    return infer_column(Cells(cells), written or Column(), "", SOURCE).type


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2.5", "-3e2", "3.38e-005"], "numeric"),
        (["1", "2", "NA", " "], "numeric"),
        (["a", "b", "a"], "categorical"),
        (["True", "False"], "categorical"),
        ([True, False], "categorical"),
        (["2020-01-01", "2020-01-02"], "datetime"),
        (["2020-01-01 10:00:00", "2020-01-02 11:30:00.5"], "datetime"),
        (["2020-01-01T10:00:00Z", "2020-01-02T11:30:00+02:00"], "datetime"),
        (["13/02/2020", "14/02/2020"], "datetime"),
        ([[1], [2]], "ignored"),
        (["x", "x"], "ignored"),
        (["x", "x", "NA"], "categorical"),
    ],
)
def test_kinds(values: list[object], kind: str) -> None:
    assert infer("a", values).kind == kind


@pytest.mark.parametrize("size", [0.3, -3e-9, 7e11 / 3])
def test_a_number_that_differs_by_rounding_is_constant(size: float) -> None:
    """0.1 + 0.2 and 0.3 are one number; so is what a sum of many terms makes of it."""
    noise = size * (1 + np.arange(-4, 4) * 2.0**-51)
    column = infer("rate", [*noise] * 8)
    assert (column.kind, column.reason[:9]) == ("ignored", "constant:")
    assert infer("rate", [*noise, size * (1 + 1e-12)] * 8).kind == "numeric"


@pytest.mark.parametrize("first", [1_700_000_000_000_000, 2**52])
def test_whole_numbers_that_are_close_are_not_rounded(first: int) -> None:
    values = [first + at % 7 for at in range(60)]
    assert infer("counter", [float(one) for one in values]).kind == "numeric"
    assert infer("counter", [str(one) for one in values]).kind == "numeric"


def test_codes_stay_numbers_unless_the_contract_says_otherwise() -> None:
    codes = ["10", "20", "10", "30"] * 10
    assert infer("zip_code", codes).kind == "numeric"
    assert infer("zip_code", codes, Column(kind="categorical")).kind == "categorical"


@pytest.mark.parametrize("start", [0, 1])
def test_a_row_counter_is_an_identifier(start: int) -> None:
    column = infer("row", [str(i + start) for i in range(50)])
    assert column.kind == "ignored"
    assert column.reason.startswith("identifier")


@pytest.mark.parametrize("name", ["X", "Unnamed: 0", "rownames", "obs", "row_number", "id"])
def test_a_row_number_with_gaps_is_an_identifier(name: str) -> None:
    numbers = [str(3 * i + i % 2) for i in range(50)]
    assert infer(name, numbers).reason.startswith("identifier")


@pytest.mark.parametrize("name", ["year", "time", "dose", "x", "days_of_snow"])
def test_rising_numbers_of_another_name_are_no_row_numbers(name: str) -> None:
    assert infer(name, [str(1900 + 3 * i + i % 2) for i in range(50)]).kind == "numeric"


def test_a_time_from_one_on_numbers_no_rows() -> None:
    assert infer("time", [str(i + 1) for i in range(50)]).kind == "numeric"


def shuffled(numbers: Sequence[int]) -> list[object]:
    return [str(number) for number in np.random.default_rng(0).permutation(numbers)]


IDS: dict[str, list[object]] = {
    "a shuffled counter": shuffled(range(1, 101)),
    "a counter from 5000": [str(5000 + i) for i in range(100)],
    "a shuffled counter from 5000": shuffled(range(5000, 5100)),
    "a third of the numbers": shuffled(range(7, 3000))[:1000],
}
AMOUNTS: dict[str, list[object]] = {
    "cents": shuffled(range(99, 100_000))[:1000],
    "sums": [str(i * (i + 3) // 2) for i in range(100)],
    "hours that go on": [str(700_000 + i) for i in np.flatnonzero(np.arange(300) % 7)],
    "few that differ": shuffled(range(60))[:25],
    "years": shuffled(range(1900, 2000)),
    "below zero": shuffled(range(-50, 50)),
    "one comes twice": [*shuffled(range(99)), "7"],
    "halves": [str(i / 2) for i in range(100)],
}


@pytest.mark.parametrize("case", IDS)
def test_numbers_that_were_given_are_identifiers(case: str) -> None:
    assert infer("x", IDS[case]).reason.startswith("identifier")
    # A name that says what is measured speaks against it.
    assert infer("elapsed_seconds", IDS[case]).kind == "numeric"


@pytest.mark.parametrize("case", AMOUNTS)
def test_numbers_that_say_something_stay(case: str) -> None:
    assert infer("x", AMOUNTS[case]).kind == "numeric"


@pytest.mark.parametrize(
    ("name", "kind"), [("user", "ignored"), ("userid", "ignored"), ("user_income", "numeric")]
)
def test_sparse_numbers_are_judged_by_their_name(name: str, kind: str) -> None:
    assert infer(name, shuffled(range(10**6))[:100]).kind == kind


def test_years_in_order_are_no_identifier() -> None:
    assert infer("year", [str(1949 + i) for i in range(50)]).kind == "numeric"


def test_unique_whole_numbers_are_an_identifier_if_the_name_says_so() -> None:
    values = [str((i * 7919) % 10007) for i in range(50)]
    assert infer("PassengerId", values).kind == "ignored"
    assert infer("width", values).kind == "numeric"
    assert infer("PassengerId", values, Column(kind="numeric")).kind == "numeric"


def test_an_identifier_of_which_a_few_repeat_is_one_still() -> None:
    values = [str(10_000 + i) for i in range(495)]
    order = infer("order_id", [*values, *values[:5]])
    assert order.kind == "ignored"
    expected = "identifier: 495 different integers in 500 rows, and its name says id"
    assert order.reason == expected
    assert infer("height", [*values, *values[:5]]).kind == "numeric"
    # Three in a hundred that repeat are customers who came again.
    assert infer("customer_id", [*values, *values[:15]]).kind == "numeric"
    halves = [str(i / 2) for i in range(495)]
    assert infer("order_id", [*halves, *halves[:5]]).kind == "numeric"


def test_strings_that_hardly_repeat_are_left_out_with_the_reason() -> None:
    assert infer("key", [f"k{i:05d}" for i in range(40)]).reason.startswith("identifier")
    text = [f"the quick brown fox number {i}" for i in range(40)]
    assert infer("note", text).reason.startswith("free text")
    chinese = ["今天的比赛很好" + chr(0x4E00 + i) for i in range(40)]
    assert infer("note", chinese).reason.startswith("free text")
    assert infer("name", [one[-3:] for one in chinese]).reason.startswith("identifier")
    rare = [f"t{i % 24}" for i in range(40)]
    assert infer("ticket", rare).reason.startswith("values rarely repeat")
    assert infer("city", [f"c{i % 20}" for i in range(40)]).kind == "categorical"


def test_counts_and_example() -> None:
    column = infer("a", ["x", "NA", "y", "x"])
    assert (column.missing, column.distinct, column.example) == (1, 2, "x")
    assert ColumnType.from_json(column.to_json()) == column


@pytest.mark.parametrize("name", ["PassengerId", "passenger_id", "passenger.ID", "id (passenger)"])
def test_the_words_of_a_name(name: str) -> None:
    assert name_tokens(name) == {"passenger", "id"}


def test_whole_numbers_are_one_label_whatever_wrote_them() -> None:
    labels = ["1", "-2", "007", "1.5", None]
    assert to_labels(pl.Series(["1.0", "-2.00", "007", "1.5", None])).to_list() == labels
    assert to_labels(pl.Series([1.0, -2.0, 1.5, None])).to_list() == ["1", "-2", "1.5", None]
    assert to_labels(pl.Series([1, -2])).to_list() == ["1", "-2"]


def test_missing_spellings_of_numbers_hold_in_typed_files_too() -> None:
    cleaning = Cleaning(("-999",), {})
    assert cleaning.cells(pl.Series("a", [1.0, -999.0])).to_list() == [1.0, None]
    assert cleaning.cells(pl.Series("a", [1, -999])).to_list() == [1, None]
    assert cleaning.cells(pl.Series("a", ["1", " -999 "])).to_list() == ["1", None]


def test_replaced_spellings_come_before_missing_ones() -> None:
    cleaning = Cleaning(("NA",), {"a": {"x": "NA", "NA": "none"}})
    assert cleaning.cells(pl.Series("a", [" x", "NA", "z"])).to_list() == [None, "none", "z"]
    assert Cleaning.from_json(cleaning.to_json()).to_json() == cleaning.to_json()


def test_moments_with_a_zone_become_utc() -> None:
    zoned = pl.Series("d", ["2020-01-01T00:30:00+01:00"]).str.to_datetime(time_zone="Europe/Paris")
    cells = CLEANING.cells(zoned)
    column = ColumnType("d", "datetime", "", 0, 1, "")
    series, bad = type_column(cells, column)
    assert str(series[0]) == "2019-12-31 23:30:00"
    assert not len(bad)
