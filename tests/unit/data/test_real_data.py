"""The real data sets, read and divided: their known quirks come out as they should."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from real_data import real_data
from trainwright.contract.sections.data.split import GroupSplit, Split, StratifiedSplit, TimeSplit
from trainwright.contract.sections.data.table_data import Column, Features, TableData
from trainwright.core.errors import DataMistake
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.types import Prepared

pytestmark = pytest.mark.real_data
DECIDED = Features(numeric="quantile", impute="median")


def made(path: Path, target: str, split: Split) -> Prepared:
    section = TableData(path=path.name, target=target, split=split, features=DECIDED)
    raw = read_table(section, path.parent)
    task = "classification" if raw.facts.target.kind == "classes" else "regression"
    return prepare_table(raw, section, task, seed=1)


def test_bike_sharing_never_trains_on_the_future() -> None:
    path = real_data("bike-sharing") / "hour.csv"
    prepared = made(path, "cnt", TimeSplit(kind="time", column="dteday"))
    assert prepared.split.future_rows_in_training == 0
    assert prepared.train.rows.max() < prepared.validation.rows.min()
    assert prepared.validation.rows.max() < prepared.test.rows.min()
    shares = [len(p) / 17379 for p in (prepared.train, prepared.validation, prepared.test)]
    assert np.abs(np.array(shares) - [0.7, 0.15, 0.15]).max() < 0.001
    assert "instant" not in prepared.features.numeric_names


def test_parkinsons_keeps_people_on_one_side() -> None:
    path = real_data("parkinsons-telemonitoring") / "parkinsons_updrs.csv"
    prepared = made(path, "total_UPDRS", GroupSplit(kind="group", column="subject#"))
    assert prepared.split.groups_on_two_sides == 0
    assert sum(prepared.split.groups.values()) == 42
    assert "subject#" not in prepared.features.numeric_names


def test_telco_churn_reads_a_blank_as_missing() -> None:
    path = real_data("telco-churn") / "Telco-Customer-Churn.csv"
    prepared = made(path, "Churn", StratifiedSplit(kind="stratified"))
    assert "TotalCharges" in prepared.features.numeric_names
    assert np.isfinite(prepared.train.inputs.numeric).all()


def test_adult_with_its_own_test_file_needs_its_labels_mended() -> None:
    folder = real_data("adult")
    section = TableData(train_path="adult_train.csv", test_path="adult_test.csv", target="income")
    with pytest.raises(DataMistake) as caught:
        read_table(section, folder)
    assert '{"<=50K.": "<=50K", ">50K.": ">50K"}' in caught.value.problems[0].fix
    mended = section.model_copy(
        update={
            "columns": {"income": Column(values={"<=50K.": "<=50K", ">50K.": ">50K"})},
            "split": StratifiedSplit(kind="stratified"),
            "features": DECIDED,
        }
    )
    prepared = prepare_table(read_table(mended, folder), mended, "classification", seed=0)
    assert len(prepared.test) == 16281
    assert len(prepared.train) + len(prepared.validation) == 32561
    occupation = prepared.features.categorical_names.index("occupation")
    assert (prepared.train.inputs.categories[:, occupation] == 1).any()
