"""Folds of the real data sets: whole people, class shares that stay, and origins that roll."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from real_data import real_data
from trainwright.contract.sections.data.table_data import Features, TableData
from trainwright.core.files import Json
from trainwright.data.prepare_table import prepare_fold, prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.types import Prepared

pytestmark = pytest.mark.real_data


def folds(path: str, target: str, split: Json) -> tuple[Prepared, list[Prepared]]:
    """What the run's own model is trained on, and each fold."""
    folder, _, name = path.partition("/")
    section = TableData(
        path=name,
        target=target,
        split=split,
        features=Features(numeric="none", impute="median"),
    )
    raw = read_table(section, real_data(folder))
    task = "classification" if raw.facts.target.kind == "classes" else "regression"
    whole = prepare_table(raw, section, task, 0)
    numbers = range(len(whole.split.folds))
    return whole, [prepare_fold(raw, section, task, 0, number) for number in numbers]


@pytest.mark.extended
def test_students_of_insteval_stay_together_with_like_shares_of_marks() -> None:
    split = {"kind": "stratified_group", "column": "s", "folds": 3}
    whole, parts = folds("insteval-ratings/InstEval.csv", "y", split)
    assert whole.split.groups_on_two_sides == 0
    assert sorted(row for fold in parts for row in fold.test.rows.tolist()) == list(range(73421))
    for fold in parts:
        students = [
            set(part.frame["s"].to_list()) for part in (fold.train, fold.validation, fold.test)
        ]
        assert not (students[0] | students[1]) & students[2]
        assert abs(len(fold.test) - 73421 / 3) < 73421 * 0.01
        for mark in "12345":
            shares = [fold.split.class_shares[part][mark] for part in ("train", "test")]
            assert abs(shares[0] - shares[1]) < 0.01


def test_people_of_parkinsons_are_each_tested_once() -> None:
    split = {"kind": "group", "column": "subject#", "folds": 6}
    whole, parts = folds("parkinsons-telemonitoring/parkinsons_updrs.csv", "total_UPDRS", split)
    tested = [person for fold in parts for person in fold.test.frame["subject#"].unique().to_list()]
    assert len(tested) == len(set(tested)) == 42
    assert whole.split.groups_on_two_sides == 0
    assert {len(rows) for rows in whole.split.folds} == {3}


def test_the_origin_rolls_over_the_hours_of_etth1() -> None:
    split = {"kind": "time", "column": "date", "folds": 4, "gap": 2, "window": 120}
    _, parts = folds("etth1/ETTh1.csv", "OT", split)
    day = np.timedelta64(1, "D")
    ends = []
    for fold in parts:
        train, validation, test = (
            part.frame["date"].to_numpy() for part in (fold.train, fold.validation, fold.test)
        )
        assert test.min() - validation.max() >= 2 * day
        assert validation.min() - train.max() >= 2 * day
        assert train.max() - train.min() <= 120 * day
        assert abs(len(test) - 17420 / 5) <= 1
        ends.append(test.max())
    assert ends == sorted(ends)
    assert str(ends[-1])[:13] == "2018-06-26T19"


def test_bike_sharing_is_foretold_day_by_day() -> None:
    split = {"kind": "time", "column": "dteday", "folds": 5}
    whole, parts = folds("bike-sharing/hour.csv", "cnt", split)
    assert whole.split.future_rows_in_training == 0
    for fold in parts:
        days = [
            set(part.frame["dteday"].to_list()) for part in (fold.train, fold.validation, fold.test)
        ]
        assert not days[0] & days[1]
        assert not days[1] & days[2]
        assert max(days[0] | days[1]) < min(days[2])
    # The mean rises with the years: each fold foretells a level that it has not seen yet.
    levels = [
        float(np.mean(fold.test.target)) - float(np.mean(fold.train.target)) for fold in parts
    ]
    assert sum(level > 0 for level in levels) >= 4


def test_telco_churn_by_a_hash_of_the_customer() -> None:
    split = {"kind": "random", "key": "customerID"}
    section = TableData(
        path="Telco-Customer-Churn.csv",
        target="Churn",
        split=split,
        features=Features(numeric="none", impute="median"),
    )
    folder = real_data("telco-churn")
    raw = read_table(section, folder)
    prepared = prepare_table(raw, section, "classification", 0)
    sides = {
        customer: part.name
        for part in (prepared.train, prepared.validation, prepared.test)
        for customer in part.frame["customerID"].to_list()
    }
    fewer = pl.Series(np.arange(7043) % 3 > 0)
    shrunk = type(raw)(
        {"train": raw.frames["train"].filter(fewer)},
        {"train": np.flatnonzero(fewer.to_numpy())},
        raw.columns,
        raw.cleaning,
        raw.facts,
        raw.notes,
    )
    again = prepare_table(shrunk, section, "classification", 0)
    for part in (again.train, again.validation, again.test):
        assert all(sides[customer] == part.name for customer in part.frame["customerID"].to_list())
    assert abs(len(prepared.test) / 7043 - 0.15) < 0.02
