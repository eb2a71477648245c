"""A date of birth is a feature and no time of the row."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from command import command, inside
from trainwright.contract.document import Contract
from trainwright.contract.reading.read_contract import read_contract
from trainwright.data.columns.column_kinds import names_birth
from trainwright.planner.init.first_contract import propose_contract

ROWS = 400


def people(name: str, years: int) -> pl.DataFrame:
    """Rows in no order, whose risk changes with the date."""
    random = np.random.default_rng(0)
    ages = random.integers(0, years * 365, ROWS)
    days = pl.date(1940, 1, 1) + pl.duration(days=pl.Series(ages))
    waves = np.sin(2 * np.pi * 12 * ages / ages.max())
    risk = np.where(waves + random.normal(0, 0.3, ROWS) > 0, "hi", "lo")
    return pl.select(days.alias(name)).with_columns(x=random.normal(size=ROWS), y=risk)


def proposed(folder: Path, frame: pl.DataFrame) -> tuple[Contract, str]:
    frame.write_csv(folder / "rows.csv")
    text = propose_contract(str(folder / "rows.csv"), "y", folder)
    (folder / "contract.yaml").write_text(text)
    return read_contract(folder / "contract.yaml").contract, text


@pytest.mark.parametrize("sorts", [False, True])
def test_a_date_of_birth_is_a_feature(tmp_path: Path, sorts: bool) -> None:
    frame = people("birth_date", 20)
    contract, text = proposed(tmp_path, frame.sort("birth_date") if sorts else frame)
    assert contract.data.split.kind == "stratified"
    assert "birth_date" not in text


def test_dates_over_a_lifetime_in_no_order_are_features(tmp_path: Path) -> None:
    contract, text = proposed(tmp_path, people("when", 60))
    assert contract.data.split.kind == "stratified"
    assert "{kind: time, column: when} if it says when a row was known" in text
    assert proposed(tmp_path, people("when", 20))[0].data.split.kind == "time"
    assert proposed(tmp_path, people("when", 60).sort("when"))[0].data.split.kind == "time"


def test_the_parts_of_a_date_of_birth_are_no_time(tmp_path: Path) -> None:
    moments = people("when", 20).sort("when")
    parts = {"birth_year": pl.col("when").dt.year(), "birth_month": pl.col("when").dt.month()}
    frame = moments.select(**parts, x="x", y="y")
    assert proposed(tmp_path, frame)[0].data.split.kind == "stratified"


def test_the_audit_takes_no_birth_for_a_time(tmp_path: Path) -> None:
    proposed(tmp_path, people("birth_date", 20))
    with inside(tmp_path):
        ran = command("check", "contract.yaml", "--json")
    (future,) = (one for one in json.loads(ran.out)["audit"] if one["test"] == "future rows")
    assert future["verdict"] == "clean"


@pytest.mark.parametrize(
    ("name", "is_birth"),
    [
        ("BirthDate", True),
        ("dob", True),
        ("date_of_birth", True),
        ("Geburtsdatum", True),
        ("born", True),
        ("date", False),
        ("airborne", False),
        ("stubborn", False),
    ],
)
def test_what_is_called_after_a_birth(name: str, is_birth: bool) -> None:
    assert names_birth(name) is is_birth
