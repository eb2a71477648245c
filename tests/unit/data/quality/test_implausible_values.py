"""Values that a column should not have: against what the contract says, and by their look."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from clean_rows import ROWS, clean, made, only, with_values
from trainwright.contract.sections.data.table_data import Column
from trainwright.core.errors import ContractMistake
from trainwright.data.quality.columns import implausible_values
from trainwright.data.quality.examined_data import examine


def test_what_breaks_the_contract() -> None:
    columns = {
        "age": Column(range=(0.0, 120.0)),
        "place": Column(allowed=("Bern", "Oslo", "Rome")),
        "code": Column(pattern="[A-Z]{2}[0-9]+", unique=True, nullable=False),
    }
    codes: list[Any] = [f"AB{row}" for row in range(ROWS)]
    codes[3], codes[4], codes[5] = "ab3", "AB1", None
    frame = pl.DataFrame({**clean(), "code": codes})
    frame[7, "age"], frame[8, "place"] = 300.0, "Ulm"
    found = implausible_values.against_schema(examine(frame, "won", columns), columns)
    assert {finding.kind: finding.rows for finding in found} == {
        "out_of_range": (7,),
        "unexpected_value": (8,),
        "pattern_mismatch": (3,),
        "not_unique": (4,),
        "forbidden_missing": (5,),
    }
    assert {finding.severity for finding in found} == {"error"}


RULED = {
    "grade": Column(allowed=("1", "2.0", "3")),
    "price": Column(pattern="[0-9]+([.][0-9]{1,2})?"),
    "day": Column(pattern="2024-[0-9]{2}-[0-9]{2}"),
    "class": Column(kind="categorical", allowed=("1.0", "2")),
    "code": Column(pattern="[a-wyz][0-9]+"),
}


def test_a_rule_of_words_holds_for_what_was_typed_before_too() -> None:
    """A contract is held to cells as they stand in the file, and, before a training, to numbers
    and moments."""
    count = 40
    written = pl.DataFrame(
        {
            "grade": ["1", "2", "3.0", "4"] * (count // 4),
            "price": ["1.50", "2", "3.0", "0.125"] * (count // 4),
            "day": [f"{2023 if row == 5 else 2024}-01-{1 + row % 28:02d}" for row in range(count)],
            "class": ["1", "2", "2", "3"] * (count // 4),
            "code": ["a1", "x1", "b22", "c"] * (count // 4),
        }
    )
    types = {"class": pl.String, "code": pl.String, "day": pl.Datetime("us")}
    typed = written.select(
        (pl.col(name).str.to_datetime() if name == "day" else pl.col(name)).cast(
            types.get(name, pl.Float64())
        )
        for name in written.columns
    )
    for frame in (written, typed):
        found = implausible_values.against_schema(examine(frame, "", RULED), RULED)
        assert {one.columns[0]: one.rows for one in found} == {
            "grade": tuple(range(3, count, 4)),
            "price": tuple(range(3, count, 4)),
            "day": (5,),
            "class": tuple(range(3, count, 4)),
            "code": tuple(row for row in range(count) if row % 4 in (1, 3)),
        }


def test_rows_are_looked_at_for_the_rule_that_is_asked_for() -> None:
    column = Column.model_construct(range=(0.0, 1.0), pattern="(no pattern")
    (look,) = examine(pl.DataFrame({"x": np.arange(30) / 20})).looks
    broken = implausible_values.broken_rows(look, column)
    assert broken.kinds == ("out_of_range", "pattern_mismatch")
    assert int(broken["out_of_range"].sum()) == 9
    with pytest.raises(ContractMistake):
        _ = broken["pattern_mismatch"]


def test_negative_numbers_and_sentinels() -> None:
    assert only(implausible_values.unlikely_values(with_values("age", {3: -4.0}))).rows == (3,)
    for sentinel in (999.0, -999.0):
        values = {**dict.fromkeys((3, 5, 8, 9), sentinel), 11: np.inf}
        assert only(implausible_values.unlikely_values(with_values("age", values))).rows == (
            3,
            5,
            8,
            9,
        )


def test_a_pile_at_the_end_is_a_cap() -> None:
    ages = np.minimum(clean()["age"], 70.0)
    finding = only(implausible_values.capped(made(age=ages)))
    assert finding.rows == tuple(np.flatnonzero(ages == 70.0).tolist())


def test_zeros_among_sizes_may_stand_for_missing() -> None:
    random = np.random.default_rng(0)
    pressure = np.round(random.normal(72, 9, ROWS))
    pressure[[3, 40, 77, 200]] = 0
    finding = only(implausible_values.unlikely_values(made(pressure=pressure)))
    assert (finding.severity, finding.rows) == ("warning", (3, 40, 77, 200))
    assert finding.fix == 'data.columns.pressure.values: {"0": ""} makes them missing'


@pytest.mark.parametrize("name", ["t_min temp", "dewp", "altitude", "price_change"])
def test_a_temperature_below_zero_is_no_fault(name: str) -> None:
    values = np.random.default_rng(0).normal(40, 15, ROWS).round(1).clip(min=0.1)
    values[[3, 40]] = -2.5
    assert implausible_values.unlikely_values(made(**{name: values})) == []
    assert only(implausible_values.unlikely_values(made(wage=values))).rows == (3, 40)


@pytest.mark.parametrize("name", ["counts", "few counts", "rain", "signed"])
def test_honest_zeros(name: str) -> None:
    random = np.random.default_rng(0)
    honest = {
        "counts": random.poisson(40, ROWS) * (random.random(ROWS) < 0.5) + random.poisson(2, ROWS),
        "few counts": np.minimum(random.geometric(0.15, ROWS) - 1, 30),
        "rain": np.where(random.random(ROWS) < 0.2, 0, random.gamma(1, 3, ROWS)),
        "signed": np.where(random.random(ROWS) < 0.1, 0, random.normal(0, 5, ROWS)),
    }
    assert implausible_values.unlikely_values(made(**{name: honest[name]})) == []


def test_a_run_of_the_smallest_value_is_not_cut_off() -> None:
    """As the rows of one patient are."""
    values = np.random.default_rng(0).normal(30, 5, ROWS)
    values[100:130] = values.min() - 1
    assert implausible_values.capped(made(score=values)) == []
    apart = np.random.default_rng(0).normal(30, 5, ROWS)
    apart[::13] = apart.min()
    assert only(implausible_values.capped(made(score=apart))).kind == "capped"
