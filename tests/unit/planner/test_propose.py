"""Proposed contracts: valid as they are, right on real data, and with a reason at every choice."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from real_data import real_data
from trainwright.contract.document import Contract
from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.sections.data.split import GroupSplit, StratifiedSplit, TimeSplit
from trainwright.contract.sections.data.table_data import TableData
from trainwright.data.read_table import read_table
from trainwright.data.statistics.leak_tests import find_leaks
from trainwright.planner.init import propose_table as proposing
from trainwright.planner.init.first_contract import propose_contract
from trainwright.planner.init.propose_table import ProposalSettings, propose

GENERATOR = np.random.default_rng(0)


def proposed(folder: Path, data: Path, target: str) -> tuple[Contract, str]:
    text = propose_contract(str(data), target, folder)
    (folder / "contract.yaml").write_text(text)
    return read_contract(folder / "contract.yaml").contract, text


def from_frame(folder: Path, frame: pl.DataFrame, target: str) -> tuple[Contract, str]:
    frame.write_csv(folder / "rows.csv")
    return proposed(folder, folder / "rows.csv", target)


def labels(rows: int, rarer: float) -> list[str]:
    return ["b" if i < rows * rarer else "a" for i in range(rows)]


def test_the_target_of_the_day_before_stays_a_feature(tmp_path: Path) -> None:
    walk = pl.Series(np.random.default_rng(4).normal(size=400).cumsum().round(4))
    days = pl.date_range(pl.date(2020, 1, 1), pl.date(2021, 2, 3), eager=True)
    columns = {"day": days, "before": walk.shift(1), "copy": walk * 2, "price": walk}
    contract, _ = from_frame(tmp_path, pl.DataFrame(columns), "price")
    assert contract.data.split == TimeSplit(kind="time", column="day", folds=5)
    assert contract.data.exclude == ("copy",)


@pytest.mark.parametrize("names", [("S5M5", "S5M4"), ("y_2010", "z_2010"), ("z.A", "y.A")])
def test_a_shared_letter_or_digit_is_no_other_form_of_the_target(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    target, feature = names
    random = np.random.default_rng(1)
    values = random.normal(size=400)
    columns = {feature: values + random.normal(0, 0.25, 400), "b": random.normal(size=400)}
    _, text = from_frame(tmp_path, pl.DataFrame({**columns, target: values}), target)
    assert "another form of the target" not in text
    renamed = {"price_net": columns[feature], "b": columns["b"], "price": values}
    _, text = from_frame(tmp_path, pl.DataFrame(renamed), "price")
    assert "another form of the target" in text


@pytest.mark.extended
@pytest.mark.real_data
def test_adult(tmp_path: Path) -> None:
    contract, text = proposed(tmp_path, real_data("adult") / "adult_train.csv", "income")
    assert contract.task == "classification"
    assert contract.data.positive == ">50K"
    assert contract.data.split.kind == "stratified"
    assert contract.metric.name == "roc_auc"
    assert contract.data.exclude == ()
    assert "24.1%" in text


@pytest.mark.real_data
def test_california_housing(tmp_path: Path) -> None:
    path = real_data("california-housing") / "housing.csv"
    contract, _ = proposed(tmp_path, path, "median_house_value")
    assert contract.task == "regression"
    assert contract.data.split.kind == "random"
    assert contract.metric.name == "rmse"
    assert contract.data.exclude == ()


@pytest.mark.real_data
def test_bike_sharing(tmp_path: Path) -> None:
    contract, text = proposed(tmp_path, real_data("bike-sharing") / "hour.csv", "cnt")
    assert contract.data.split == TimeSplit(kind="time", column="dteday")
    assert set(contract.data.exclude) == {"instant", "casual", "registered"}
    assert "R2 of 1.000000" in text


@pytest.mark.real_data
def test_titanic(tmp_path: Path) -> None:
    contract, text = proposed(tmp_path, real_data("titanic") / "titanic_train.csv", "Survived")
    assert contract.data.split.kind == "stratified"
    assert {"PassengerId", "Name", "Ticket"} <= set(contract.data.exclude)
    assert contract.data.positive == "1"
    assert "free text" in text


@pytest.mark.extended
@pytest.mark.real_data
def test_parkinsons(tmp_path: Path) -> None:
    path = real_data("parkinsons-telemonitoring") / "parkinsons_updrs.csv"
    contract, text = proposed(tmp_path, path, "total_UPDRS")
    assert contract.data.split == GroupSplit(kind="group", column="subject#")
    assert contract.data.exclude == ("motor_UPDRS",)
    assert "gives the target away: 'motor_UPDRS' alone explains" in text


@pytest.mark.extended
@pytest.mark.real_data
def test_telco_churn(tmp_path: Path) -> None:
    path = real_data("telco-churn") / "Telco-Customer-Churn.csv"
    contract, _ = proposed(tmp_path, path, "Churn")
    assert contract.data.split.kind == "stratified"
    assert contract.data.exclude == ("customerID",)
    assert contract.data.positive == "Yes"
    raw = read_table(TableData(path=path.name, target="Churn"), path.parent)
    (charges,) = (column for column in raw.columns if column.name == "TotalCharges")
    assert (charges.kind, charges.missing) == ("numeric", 11)


@pytest.mark.real_data
def test_penguins(tmp_path: Path) -> None:
    contract, text = proposed(tmp_path, real_data("penguins") / "penguins.csv", "species")
    assert contract.metric.name == "f1_macro"
    assert contract.data.positive == "auto"
    assert "Adelie 44.2%" in text


def test_the_path_is_relative_to_the_contract(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "contracts").mkdir()
    frame = pl.DataFrame({"x": GENERATOR.normal(size=60), "y": labels(60, 0.3)})
    frame.write_csv(tmp_path / "data" / "rows.csv")
    contract, _ = proposed(tmp_path / "contracts", tmp_path / "data" / "rows.csv", "y")
    assert contract.data.path == "../data/rows.csv"


def test_every_choice_has_its_reason(tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": range(60), "x": GENERATOR.normal(size=60), "y": labels(60, 0.3)})
    _, text = from_frame(tmp_path, frame, "y")
    for key in ("task", "positive", "split", "name", "- id"):
        (line,) = re.findall(rf"^ *{key}[: ].*$", text, flags=re.M)
        assert re.search(r"  # \w", line), line


def test_a_rare_class_is_judged_by_average_precision(tmp_path: Path) -> None:
    frame = pl.DataFrame({"x": GENERATOR.normal(size=100), "y": labels(100, 0.19)})
    contract, text = from_frame(tmp_path, frame, "y")
    assert contract.metric.name == "average_precision"
    assert contract.data.positive == "b"
    assert "19.0%" in text


def test_the_positive_class_by_its_name(tmp_path: Path) -> None:
    names = ["Yes" if i % 3 else "No" for i in range(90)]
    frame = pl.DataFrame({"x": GENERATOR.normal(size=90), "y": names})
    assert from_frame(tmp_path, frame, "y")[0].data.positive == "Yes"


def test_a_class_too_rare_to_stratify(tmp_path: Path) -> None:
    frame = pl.DataFrame({"x": GENERATOR.normal(size=90), "y": labels(90, 0.02)})
    contract, text = from_frame(tmp_path, frame, "y")
    assert contract.data.split == StratifiedSplit(kind="stratified", rare="train")
    assert "they train and are never judged" in text


@pytest.mark.parametrize(
    ("name", "groups", "kind"),
    [
        ("patient_id", 12, "group"),
        ("userId", 12, "group"),
        ("households", 12, "stratified"),
        ("patient_id", 9, "group"),
        ("patient_id", 40, "group"),
        ("patient_id", 100, "stratified"),
        ("region_id", 12, "stratified"),
    ],
)
def test_group_keys(tmp_path: Path, name: str, groups: int, kind: str) -> None:
    ids = [i % groups + 100 for i in range(120)]
    frame = pl.DataFrame({name: ids, "x": GENERATOR.normal(size=120), "y": ["a", "b", "b"] * 40})
    contract, _ = from_frame(tmp_path, frame, "y")
    assert contract.data.split.kind == kind


def test_dates_split_only_if_the_file_is_sorted_by_them(tmp_path: Path) -> None:
    days = [f"2020-01-{i // 4 + 1:02d}" for i in range(100)]
    frame = pl.DataFrame({"day": days, "x": GENERATOR.normal(size=100), "y": ["a", "b"] * 50})
    assert from_frame(tmp_path, frame, "y")[0].data.split.kind == "time"
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=1)
    split = from_frame(tmp_path, shuffled, "y")[0].data.split
    assert split == StratifiedSplit(kind="stratified", folds=5)


@pytest.mark.parametrize(
    "name",
    ["yes", "a: b", 'say "hi"', "#x", "Jitter(%)", "naïve ☃", "- x", "1", "{a}", "tab\there"],
)
def test_odd_column_names_survive(tmp_path: Path, name: str) -> None:
    frame = pl.DataFrame(
        {name: ["same"] * 60, "x": GENERATOR.normal(size=60), f"{name} y": labels(60, 0.3)}
    )
    contract, _ = from_frame(tmp_path, frame, f"{name} y")
    assert contract.data.target == f"{name} y"
    assert contract.data.exclude == (name,)


def test_rows_without_a_target_are_left_out_and_counted(tmp_path: Path) -> None:
    frame = pl.DataFrame({"x": range(60), "y": [None if i % 6 == 0 else i % 2 for i in range(60)]})
    contract, text = from_frame(tmp_path, frame.with_columns(pl.col("x") * 0.37 % 1), "y")
    assert isinstance(contract.data, TableData)
    assert contract.data.missing_target == "drop"
    assert "# the target is missing in 10 of 60 rows: they are excluded" in text
    assert read_table(contract.data, tmp_path).facts.rows == 50


def test_a_schema_is_named_on_the_first_line(tmp_path: Path) -> None:
    frame = pl.DataFrame({"x": GENERATOR.normal(size=60), "y": labels(60, 0.3)})
    frame.write_csv(tmp_path / "rows.csv")
    raw = read_table(TableData(path="rows.csv", target="y"), tmp_path)
    text = propose(raw, "rows.csv", "y", ProposalSettings("schema.json"))
    assert text.startswith("# yaml-language-server: $schema=schema.json\n")
    assert "$schema" not in propose(raw, "rows.csv", "y")


def test_what_may_be_honest_stays_a_feature(tmp_path: Path) -> None:
    """A rule of two categories, and one good sensor among poor ones."""
    random = np.random.default_rng(0)
    one, other = random.integers(0, 2, (2, 400))
    said = np.where(one == other, "yes", "no")
    rule = pl.DataFrame({"one": one, "other": other, "x": random.normal(size=400), "y": said})
    assert from_frame(tmp_path, rule, "y")[0].data.exclude == ()
    noise = {name: random.normal(size=400) for name in ("humidity", "wind")}
    sensor = {"temp": 3.3 * (said == "yes") + random.normal(size=400), **noise, "y": said}
    assert from_frame(tmp_path, pl.DataFrame(sensor), "y")[0].data.exclude == ()


def test_leaks_of_very_many_rows_are_looked_for_in_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heights = []

    def heard(frame: pl.DataFrame, *others: object) -> object:
        heights.append(frame.height)
        return find_leaks(frame, *others)

    monkeypatch.setattr(proposing, "find_leaks", heard)
    numbers = np.random.default_rng(0).normal(size=60_000)
    others = np.random.default_rng(1).normal(size=60_000)
    frame = pl.DataFrame({"copy": numbers, "x": others, "y": numbers})
    assert from_frame(tmp_path, frame, "y")[0].data.exclude == ("copy",)
    assert heights == [42_000], "the training rows"
