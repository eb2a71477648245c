"""The quirks that the notes on the real data sets name are found by `data check`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from command import command
from real_data import real_data

pytestmark = pytest.mark.real_data

Findings = list[dict[str, Any]]


def checked(rows: Path, target: str = "", *words: str) -> Findings:
    """The findings of the quick checks, as a program gets them."""
    chosen = ["--target", target] if target else []
    ran = command("data", "check", rows, *chosen, "--quick", "--json", *words)
    assert ran.code in (0, 4), ran.err
    found: Findings = json.loads(ran.out)["findings"]
    assert (ran.code == 4) == any(one["severity"] == "error" for one in found)
    return found


def counts(found: Findings, kind: str) -> dict[tuple[str, ...], int]:
    """Count by columns."""
    return {tuple(one["columns"]): one["count"] for one in found if one["kind"] == kind}


@pytest.mark.slow
def test_adult(tmp_path: Path) -> None:
    folder = real_data("adult")
    found = checked(folder / "adult_train.csv", "income")
    assert counts(found, "missing") == {
        ("occupation",): 1843,
        ("workclass",): 1836,
        ("native_country",): 583,
    }
    assert counts(found, "exact_duplicates") == {(): 24}
    assert ("education", "education_num") in counts(found, "redundant_columns")
    assert "income" in next(iter(counts(found, "surrounding_spaces")))
    # The full stop behind the labels of the test file gives four classes.
    contract = tmp_path / "contract.yaml"
    contract.write_text(
        f"data:\n  train_path: {folder / 'adult_train.csv'}\n"
        f"  test_path: {folder / 'adult_test.csv'}\n  target: income\nmodel: {{kind: boosting}}\n"
    )
    found = checked(contract)
    (spelling,) = [one for one in found if one["kind"] == "variant_spellings"]
    assert (spelling["columns"], spelling["severity"]) == (["income"], "error")
    assert spelling["count"] == 16_281
    assert min(spelling["rows"]) == 32_561


def test_banking77() -> None:
    found = checked(real_data("banking77") / "train.csv", "category")
    assert counts(found, "class_imbalance") == {("category",): 35}
    assert counts(found, "line_breaks") == {("text",): 10}
    assert counts(found, "ordered_target") == {("category",): 10_003}


@pytest.mark.extended
def test_bike_sharing() -> None:
    found = checked(real_data("bike-sharing") / "hour.csv", "cnt")
    assert ("casual", "registered") in counts(found, "leak")
    assert ("instant",) in counts(found, "identifier")
    assert counts(found, "time_gaps") == {("dteday",): 165}
    assert counts(found, "rare_category")[("weathersit",)] == 3
    (frozen,) = [one for one in found if one["kind"] == "stuck" and one["columns"] == ["atemp"]]
    frame = pl.read_csv(real_data("bike-sharing") / "hour.csv")
    assert set(frame["dteday"].gather(frozen["rows"])) >= {"2012-08-17"}


@pytest.mark.extended
def test_california_housing() -> None:
    found = checked(real_data("california-housing") / "housing.csv", "median_house_value")
    assert counts(found, "missing") == {("total_bedrooms",): 207}
    caps = counts(found, "capped")
    assert (caps[("median_house_value",)], caps[("housing_median_age",)]) == (965, 1273)
    assert counts(found, "rare_category") == {("ocean_proximity",): 5}
    assert ("ocean_proximity",) in counts(found, "markup")
    assert {("total_rooms",), ("population",)} <= set(counts(found, "skewed"))


@pytest.mark.extended
def test_elec2() -> None:
    found = checked(real_data("elec2") / "elec.csv", "class")
    assert counts(found, "exact_duplicates") == {(): 8}
    stuck = {tuple(one["columns"]): set(one["rows"]) for one in found if one["kind"] == "stuck"}
    for name in ("vicprice", "vicdemand", "transfer"):
        assert set(range(17_424)) <= stuck[(name,)]
    (order,) = [one for one in found if one["kind"] == "ordered_target"]
    assert "85.3%" in order["message"]


def test_etth1() -> None:
    found = checked(real_data("etth1") / "ETTh1.csv", "OT")
    assert ("OT",) in counts(found, "stuck")
    assert ("OT",) in counts(found, "ordered_target")


@pytest.mark.extended
def test_insteval() -> None:
    found = checked(real_data("insteval-ratings") / "InstEval.csv", "y")
    assert {("rownames",), ("s",), ("d",)} <= set(counts(found, "identifier"))


@pytest.mark.extended
def test_parkinsons() -> None:
    found = checked(real_data("parkinsons-telemonitoring") / "parkinsons_updrs.csv", "total_UPDRS")
    assert counts(found, "unlikely_values") == {("test_time",): 12}
    assert ("motor_UPDRS",) in counts(found, "suspicious_feature")
    assert ("total_UPDRS",) in counts(found, "ordered_target")


def test_penguins() -> None:
    found = checked(real_data("penguins") / "penguins.csv", "species")
    absent = counts(found, "missing")
    assert absent.pop(("sex",)) == 11
    assert len(absent) == 4
    assert set(absent.values()) == {2}


@pytest.mark.extended
def test_telco() -> None:
    found = checked(real_data("telco-churn") / "Telco-Customer-Churn.csv", "Churn")
    assert counts(found, "missing") == {("TotalCharges",): 11}
    assert counts(found, "surrounding_spaces") == {("TotalCharges",): 11}
    assert ("SeniorCitizen",) in counts(found, "mixed_formats")
    assert ("TotalCharges", "tenure", "MonthlyCharges") in counts(found, "redundant_columns")
    assert ("customerID",) in counts(found, "identifier")


def test_titanic() -> None:
    folder = real_data("titanic")
    found = checked(folder / "titanic_train.csv", "Survived")
    assert counts(found, "missing") == {("Cabin",): 687, ("Age",): 177, ("Embarked",): 2}
    assert {("PassengerId",), ("Name",), ("Ticket",)} <= set(counts(found, "identifier"))
    # The rows to predict have no target, and are looked at without one.
    assert counts(checked(folder / "titanic_test_unlabelled.csv"), "missing")[("Cabin",)] == 327


def test_sms_spam() -> None:
    found = checked(real_data("sms-spam") / "SMSSpamCollection.tsv", "column_1")
    assert counts(found, "exact_duplicates") == {(): 403}
    assert counts(found, "class_imbalance") == {("column_1",): 747}
    assert counts(found, "markup")[("column_2",)] >= 200


def test_alpaca_and_tool_calls() -> None:
    found = checked(real_data("alpaca-en-demo") / "alpaca_en_demo.jsonl", "output")
    assert counts(found, "missing")[("input",)] == 999 - 412
    nested = real_data("toolcall-chat-demo") / "glaive_toolcall_en_demo.jsonl"
    # The lists in its cells are read as `init` would read them, as their JSON.
    assert ("conversations",) in {tuple(one["columns"]) for one in checked(nested)}


def test_emoji_captions() -> None:
    found = checked(real_data("emoji-captions") / "captions.csv", "group")
    assert ("caption",) in counts(found, "identifier")
    assert counts(found, "class_imbalance")


def test_airline_passengers() -> None:
    found = checked(real_data("airline-passengers") / "airline-passengers.csv", "Passengers")
    assert ("Passengers",) in counts(found, "ordered_target")


@pytest.mark.slow
def test_fashion_mnist_has_no_blank_image(tmp_path: Path) -> None:
    contract = tmp_path / "contract.yaml"
    contract.write_text(
        f"data: {{kind: images, path: {real_data('fashion-mnist')}}}\nmodel: {{kind: resnet}}\n"
    )
    found = checked(contract)
    assert "blank_image" not in {one["kind"] for one in found}
    assert "class_imbalance" not in {one["kind"] for one in found}
