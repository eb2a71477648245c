"""Columns that lack values, say nothing, name the row, or say what another column says."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import polars as pl
import pytest

from clean_rows import ROWS, clean, made, only, with_values
from trainwright.data.quality.columns import missing_values, time_series
from trainwright.data.quality.columns.useless_columns import (
    constant_columns,
    few_rows,
    identifier,
    rare_category,
    redundant_columns,
)
from trainwright.data.quality.examined_data import ColumnView, examine


def test_missing_names_rows_and_column() -> None:
    finding = only(missing_values.missing(with_values("place", {3: "?", 9: "", 12: None})))
    assert (finding.rows, finding.columns) == ((3, 9, 12), ("place",))


def test_missing_that_depends_on_the_class() -> None:
    won = clean()["won"]
    random = np.random.default_rng(0)
    gone = [random.random() < (0.3 if answer == "yes" else 0.03) for answer in won]
    ages = [None if g else age for g, age in zip(gone, clean()["age"], strict=True)]
    finding = only(missing_values.missing_not_at_random(made(age=ages)))
    assert finding.columns == ("age",)
    at_random = [None if row % 9 == 0 else age for row, age in enumerate(clean()["age"])]
    assert missing_values.missing_not_at_random(made(age=at_random)) == []


def test_missing_where_a_number_is_high() -> None:
    columns = clean()
    ages = [None if h > 178 else a for h, a in zip(columns["height"], columns["age"], strict=True)]
    data = examine(pl.DataFrame({**columns, "age": ages}), "height")
    assert only(missing_values.missing_not_at_random(data)).columns == ("age",)


def test_constant_columns() -> None:
    data = made(version=["1.0"] * ROWS, nothing=[None] * ROWS)
    assert [finding.columns for finding in constant_columns(data)] == [("version",), ("nothing",)]


def test_identifiers_and_codes() -> None:
    random = np.random.default_rng(0)
    data = made(order=list(range(ROWS)), key=[f"k{row:05d}" for row in range(ROWS)])
    assert [finding.columns for finding in identifier(data)] == [("order",), ("key",)]
    codes = pl.DataFrame({"user": random.integers(1, 150, 3000), "x": random.normal(size=3000)})
    assert only(identifier(examine(codes))).columns == ("user",)
    ages = pl.DataFrame({"age": random.poisson(40, 3000), "x": random.normal(size=3000)})
    assert identifier(examine(ages)) == []


@pytest.mark.parametrize("code", ["{}", "A-{}"])
def test_an_identifier_that_repeats_names_the_rows(code: str) -> None:
    ids = [code.format(10_000 + 7 * row) for row in range(ROWS)]
    assert only(identifier(made(order_id=ids))).severity == "info"
    ids[17], ids[30] = ids[3], ids[5]
    finding = only(identifier(made(order_id=ids)))
    assert (finding.severity, finding.rows, finding.columns) == ("warning", (17, 30), ("order_id",))
    assert f"2 rows repeat the value of an earlier one: '{ids[3]}', '{ids[5]}'" in finding.message
    assert [one.severity for one in identifier(made(note=ids))] in ([], ["info"])
    visits = [code.format(row % (ROWS - 20)) for row in range(ROWS)]
    assert [one.severity for one in identifier(made(customer_id=visits))] in ([], ["info"])


def test_redundant_columns_and_products() -> None:
    names = {"Bern": 1, "Oslo": 2, "Rome": 3}
    columns = clean()
    data = made(
        code=[names[place] for place in columns["place"]],
        inches=columns["height"] / 2.54,
        product=columns["age"] * columns["weight"],
    )
    found = {frozenset(finding.columns) for finding in redundant_columns(data)}
    assert found == {
        frozenset({"place", "code"}),
        frozenset({"height", "inches"}),
        frozenset({"product", "age", "weight"}),
    }


def test_a_row_of_totals_makes_no_two_columns_the_same() -> None:
    frame = pl.DataFrame({name: clean()[name] for name in ("height", "age")})
    frame = pl.concat([frame, 100 * frame.sum()])
    assert abs(float(np.corrcoef(frame["height"], frame["age"])[0, 1])) > 0.9999
    assert redundant_columns(examine(frame)) == []


def test_wide_and_long_tables_are_looked_at_in_passing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each column is read a few times, not once for each other column or each stretch of it."""
    reads = 0

    def counted(look: ColumnView) -> np.ndarray:
        nonlocal reads
        reads += 1
        return numbers(look)

    numbers = cast(Callable[[ColumnView], np.ndarray], ColumnView.numbers.fget)
    monkeypatch.setattr(ColumnView, "numbers", property(counted))
    random = np.random.default_rng(0)
    slow = np.repeat(np.cumsum(random.normal(size=300)), 12)
    columns = {f"x{at}": random.normal(size=3600) for at in range(10)}
    data = examine(pl.DataFrame({**columns, "slow": slow, "fast": slow + 0.01 * columns["x0"]}))
    for check in (time_series.frozen, redundant_columns):
        reads = 0
        check(data)
        assert reads <= 4 * len(data.looks)


def test_columns_say_the_same_where_their_values_go_with_each_other() -> None:
    random = np.random.default_rng(0)
    flags = {f"flag {at}": random.integers(0, 2, ROWS) for at in range(40)}
    columns = {
        **flags,
        "other way": 1 - flags["flag 7"],
        "said": np.where(flags["flag 7"], "y", "n"),
    }
    found = [one.columns for one in redundant_columns(examine(pl.DataFrame(columns)))]
    same = ("flag 7", "other way", "said")
    assert found == [(same[0], same[1]), (same[0], same[2]), (same[1], same[2])]


def test_rare_categories() -> None:
    finding = only(rare_category(with_values("place", {3: "Ulm", 5: "Ulm"})))
    assert finding.rows == (3, 5)


def test_one_column_under_two_names() -> None:
    frame = clean()
    found = redundant_columns(made(town=frame["place"], size=frame["height"]))
    assert {(one.severity, one.columns) for one in found} == {
        ("warning", ("place", "town")),
        ("warning", ("height", "size")),
    }


def test_more_features_than_training_rows() -> None:
    random = np.random.default_rng(0)
    wide = {f"x{at}": random.normal(size=50) for at in range(60)} | {"y": ["a", "b"] * 25}
    finding = only(few_rows(examine(pl.DataFrame(wide), "y")))
    assert (finding.severity, finding.count) == ("warning", 50)
    assert finding.message.startswith("60 features and 50 training rows")
    assert few_rows(made()) == []


def test_a_word_that_counts_as_missing_is_said() -> None:
    alleys = ["None", "Gravel", "Paved", "Paved"] * (ROWS // 4)
    finding = only(missing_values.missing_words(made(alley=alleys)))
    assert (finding.severity, finding.columns, finding.count) == ("warning", ("alley",), ROWS // 4)
    assert "'None'" in finding.message
    # In a table that writes NA for a missing number it means the same among words.
    ages = [None if row % 9 == 0 else str(age) for row, age in enumerate(clean()["age"])]
    written = pl.Series(ages).fill_null("NA").to_list()
    usual = ["NA", "Gravel", "Paved", "Paved"] * (ROWS // 4)
    assert missing_values.missing_words(made(age=written, alley=usual)) == []
    assert (
        missing_values.missing_words(made(alley=["?", "", "Paved", "Gravel"] * (ROWS // 4))) == []
    )
