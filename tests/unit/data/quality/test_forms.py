"""How values are written: numbers, dates and labels in several ways."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

from clean_rows import ROWS, clean, made, only, with_values
from trainwright.data.quality.columns import value_formats
from trainwright.data.quality.columns.useless_columns import identifier
from trainwright.data.quality.examined_data import examine
from trainwright.data.quality.run_checks import find_faults


def test_words_among_numbers_are_of_a_wrong_type() -> None:
    ages = [str(round(age, 1)) for age in clean()["age"]]
    ages[4], ages[8] = "unknown", "n.a."
    finding = only(value_formats.wrong_type(made(age=ages)))
    assert (finding.kind, finding.rows) == ("wrong_type", (4, 8))


@pytest.mark.parametrize("strange", [np.inf, -np.inf, 1e300])
def test_numbers_that_no_feature_may_have(strange: float) -> None:
    """A training refuses them; here they are named, and spoil no other check."""
    data = with_values("age", {4: strange, 8: strange})
    found = only([one for one in find_faults(data, {}, "quick") if one.severity != "info"])
    assert (found.kind, found.columns, found.rows) == ("wrong_type", ("age",), (4, 8))


def test_numbers_as_text_in_a_typed_file() -> None:
    finding = only(value_formats.wrong_type(made(age=[str(age) for age in clean()["age"]])))
    assert finding.count == ROWS


def test_a_decimal_comma_throughout() -> None:
    ages = [f"{age:.2f}".replace(".", ",") for age in clean()["age"]]
    assert "decimal comma" in only(value_formats.wrong_type(made(age=ages))).message


def test_a_decimal_comma_here_and_there() -> None:
    ages = [f"{age:.2f}" for age in clean()["age"]]
    for row in (2, 30, 31):
        ages[row] = ages[row].replace(".", ",")
    assert only(value_formats.mixed_formats(made(age=ages))).rows == (2, 30, 31)


def test_numbers_with_thousandths_are_written_in_one_way() -> None:
    ages = [f"{age:.3f}" for age in clean()["age"]]
    assert value_formats.mixed_formats(made(age=ages)) == []


def test_dates_in_two_ways() -> None:
    dates = [f"2024-{1 + row % 12:02d}-{1 + row % 28:02d}" for row in range(ROWS)]
    for row in (5, 50, 100):
        dates[row] = f"{1 + row % 28:02d}/{1 + row % 12:02d}/2024"
    assert only(value_formats.mixed_formats(made(day=dates))).rows == (5, 50, 100)


def test_several_units_as_text() -> None:
    weights = [f"{weight:.1f} kg" for weight in clean()["weight"]]
    weights[6], weights[60] = "150 lb", "172 lb"
    finding = only(value_formats.units_as_text(made(weight=weights)))
    assert (finding.kind, finding.rows) == ("mixed_units", (6, 60))


@pytest.mark.parametrize(
    "words",
    [
        *(["1st", "3rd"], ["1st", "2nd", "3rd"], ["7am", "8pm"], ["10a", "10b", "11a"]),
        *(["34M", "28F"], ["12B", "14C"], ["5H", "10D", "3S"], ["2D", "3D", "4K"]),
    ],
)
def test_letters_after_a_number_that_are_no_units(words: list[str]) -> None:
    cells = [words[row % len(words)] for row in range(ROWS)]
    assert value_formats.units_as_text(made(grade=cells)) == []


def test_sign_and_code_of_a_currency_are_one_unit() -> None:
    prices = [f"€{at}.5" if at % 2 else f"{at}.5 EUR" for at in range(ROWS)]
    assert only(value_formats.units_as_text(made(weight=prices))).kind == "wrong_type"
    assert "'$'" in only(value_formats.units_as_text(made(weight=["$1.5"] * ROWS))).message
    others = [f"${at}.5" if at % 2 else f"{at}.5 AUD" for at in range(ROWS)]
    assert only(value_formats.units_as_text(made(weight=others))).kind == "mixed_units"


def test_codes_of_two_letters_are_no_spellings() -> None:
    genes = [("AA", "Aa", "aa")[row % 3] for row in range(ROWS)]
    assert value_formats.variant_spellings(made(gene=genes)) == []
    answers = [("no", "yes", "No")[row % 3] for row in range(ROWS)]
    assert only(value_formats.variant_spellings(made(answer=answers))).columns == ("answer",)


def test_spellings_of_one_word() -> None:
    finding = only(value_formats.variant_spellings(with_values("place", {1: "oslo", 2: "Rome."})))
    assert (finding.rows, finding.severity) == ((1, 2), "warning")
    finding = only(value_formats.variant_spellings(with_values("won", {1: "YES"})))
    assert (finding.rows, finding.severity) == ((1,), "error")


def test_different_signs_are_different_labels() -> None:
    columns = {**clean(), "won": [">50K", "<=50K"] * 200}
    assert value_formats.variant_spellings(examine(pl.DataFrame(columns), "won")) == []


def test_spaces_around_cells() -> None:
    found = value_formats.surrounding_spaces(with_values("place", {1: " Oslo", 2: "   "}))
    assert [finding.rows for finding in found] == [(1,), (2,)]


def test_dates_in_several_forms_with_impossible_days_are_dates() -> None:
    """Of which no form reads nine in ten."""
    written = ("%Y-%m-%d", "%d/%m/%Y", "%B %d, %Y", "%d.%m.%Y")
    days = [date(2020, 1, 1) + timedelta(7 * row % 1400) for row in range(ROWS)]
    cells = [day.strftime(written[row % 4]) for row, day in enumerate(days)]
    impossible = {5: "2021-02-30", 50: "31/11/2020", 90: "Feb 31, 2020"}
    for row, cell in impossible.items():
        cells[row] = cell
    data = made(when=cells)
    assert data.of_name("when").kind == "datetime"
    wrong = only(value_formats.wrong_type(data))
    assert wrong.rows == tuple(impossible)
    ways = only(value_formats.mixed_formats(data))
    assert ways.count > ROWS / 2
    assert not [one for one in identifier(data) if "when" in one.columns]
