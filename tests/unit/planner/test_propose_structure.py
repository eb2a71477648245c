"""Splits that `init` proposes where rows share something, and that `check` then accepts."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from command import command
from real_data import FOLDER
from trainwright.contract.document import Contract
from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.sections.data.series import SeriesData
from trainwright.contract.sections.data.split import GroupSplit, RandomSplit, TimeSplit

TABLES = FOLDER.parent / "real-tables"
RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def the_same_draws_in_any_order_of_tests() -> None:
    RANDOM.bit_generator.state = np.random.default_rng(1).bit_generator.state


def proposed(folder: Path, table: Path, target: str) -> Contract:
    """The contract of `init`, which `check` accepts."""
    contract = folder / "contract.yaml"
    assert command("init", table, "--target", target, "-o", contract).code == 0
    checked = command("check", contract)
    assert checked.code == 0, checked.out + checked.err
    return read_contract(contract).contract


def from_columns(folder: Path, target: str, **columns: object) -> Contract:
    pl.DataFrame(columns).write_csv(folder / "rows.csv")
    return proposed(folder, folder / "rows.csv", target)


def test_the_entity_that_has_one_target_is_a_group_and_no_leak(tmp_path: Path) -> None:
    persons = np.repeat(np.arange(60), 8)
    sex = RANDOM.choice(["f", "m"], 60)[persons]
    rating = RANDOM.integers(1, 7, 480)
    contract = from_columns(tmp_path, "GENDER", RESP=persons, SURENESS=rating, GENDER=sex)
    assert contract.data.split == GroupSplit(kind="group", column="RESP", folds=5)
    assert contract.data.exclude == ()


def test_a_single_series_is_forecast(tmp_path: Path) -> None:
    flow = 900 + RANDOM.normal(0, 100, 100).round()
    contract = from_columns(
        tmp_path, "value", rownames=range(1, 101), time=range(1871, 1971), value=flow
    )
    assert contract.task == "forecasting"
    data = contract.data
    assert isinstance(data, SeriesData)
    assert (data.time, data.horizon, data.exclude) == ("time", 2, ("rownames",))


def test_the_clock_of_a_trending_series_stays(tmp_path: Path) -> None:
    years = np.arange(1900, 2000)
    trends = {
        name: (np.exp((years - 1900) / 40) * RANDOM.normal(1, 0.01, 100)).round(4)
        for name in ("income", "spending")
    }
    contract = from_columns(tmp_path, "spending", year=years, **trends)
    assert contract.data.split == TimeSplit(kind="time", column="year", folds=5)
    assert contract.data.exclude == ()


def test_copies_under_new_row_numbers_stay_on_one_side(tmp_path: Path) -> None:
    values = RANDOM.normal(size=(200, 3)).round(3)
    copied = np.concatenate([values, values[:40]])
    contract = from_columns(
        tmp_path, "y", rownames=range(1, 241), a=copied[:, 0], b=copied[:, 1], y=copied[:, 2]
    )
    assert contract.data.split == RandomSplit(kind="random", key="*", folds=5)


def expected_splits() -> list[tuple[str, str, str]]:
    """Case, target and right split of each small real table; none where they are missing."""
    if not TABLES.is_dir():
        return []
    with (TABLES / "cases.csv").open() as file:
        return [(row["case"], row["target"], row["expected"]) for row in csv.DictReader(file)]


@pytest.mark.extended
@pytest.mark.real_data
@pytest.mark.skipif(not TABLES.is_dir(), reason="the real tables are not beside the project")
@pytest.mark.parametrize(("case", "target", "expected"), expected_splits())
def test_real_tables(tmp_path: Path, case: str, target: str, expected: str) -> None:
    table = tmp_path / f"{case}.csv"
    shutil.copy(TABLES / f"{case}.csv", table)
    contract = proposed(tmp_path, table, target)
    if expected == "regression":
        assert contract.task == "regression"
        return
    if isinstance(contract.data, SeriesData):
        assert expected == f"time {contract.data.time}"
        return
    split = contract.data.split
    column = getattr(split, "column", "")
    kind = {"stratified": "random"}.get(split.kind, split.kind)
    if expected == "no error":
        assert kind == "random"
    elif '"*"' in expected:
        assert (kind, getattr(split, "key", "")) == ("random", "*")
    else:
        accepted = expected.split(" (")[0].split(" or ")
        assert f"{kind} {column}".strip() in accepted
