"""Prepared parts: positions, units, targets and the version."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from trainwright.contract.sections.data.split import (
    ColumnSplit,
    GroupSplit,
    RandomSplit,
    Split,
    StratifiedSplit,
    TimeSplit,
)
from trainwright.contract.sections.data.table_data import Features as FeaturesSection
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import DataMistake
from trainwright.data.columns.class_target import Classes
from trainwright.data.columns.fit_target import fit_target
from trainwright.data.columns.number_target import Numbers
from trainwright.data.columns.target import target_from_json
from trainwright.data.labelled_part import read_part
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.sources.find_source import read_source
from trainwright.data.types import Prepared

DECIDED = FeaturesSection(numeric="none", impute="none")


def write(path: Path, rows: int = 90, first: int = 0) -> None:
    numbers = np.arange(first, first + rows)
    pl.DataFrame(
        {
            "x": (numbers * 37) % 101 * 11,
            "g": (numbers // 3) * 2,
            "t": numbers // 2,
            "y": np.where(numbers % 3 == 0, "yes", "no"),
            "v": (numbers * 13) % 97 / 7,
        }
    ).write_csv(path)


def section(split: Split, target: str = "y", **more: str) -> TableData:
    paths = more or {"path": "a.csv"}
    return TableData(target=target, split=split, features=DECIDED, **paths)  # type: ignore[arg-type]


def made(folder: Path, data: TableData, task: str = "classification", seed: int = 0) -> Prepared:
    return prepare_table(read_table(data, folder), data, task, seed)  # type: ignore[arg-type]


def test_parts_hold_every_row_once_in_ascending_order(tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    prepared = made(tmp_path, section(StratifiedSplit(kind="stratified")))
    parts = (prepared.train, prepared.validation, prepared.test)
    assert sorted(np.concatenate([part.rows for part in parts]).tolist()) == list(range(90))
    whole = read_source("a.csv", tmp_path).frame
    for part in parts:
        assert (np.diff(part.rows) > 0).all()
        assert part.frame["x"].cast(pl.Int64).to_list() == [
            int(x) for x in whole["x"].gather(part.rows).to_list()
        ]
        labels = [("no", "yes")[code] for code in part.target]
        assert labels == whole["y"].gather(part.rows).to_list()
        assert (part.units == np.arange(len(part))).all()


def test_group_units_are_groups_and_the_group_is_no_feature(tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    prepared = made(tmp_path, section(GroupSplit(kind="group", column="g")))
    assert prepared.features.numeric_names == ("x", "t", "v")
    assert prepared.split.groups_on_two_sides == 0
    for part in (prepared.train, prepared.validation, prepared.test):
        assert len(np.unique(part.units)) == part.frame["g"].n_unique()
    seen = [set(p.units) for p in (prepared.train, prepared.validation, prepared.test)]
    assert not seen[0] & seen[1]
    assert not seen[0] & seen[2]


def test_time_units_are_stretches_and_a_number_of_time_is_no_feature(tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    prepared = made(tmp_path, section(TimeSplit(kind="time", column="t")))
    assert "t" not in prepared.features.numeric_names
    assert prepared.split.future_rows_in_training == 0
    assert 1 < len(np.unique(prepared.test.units)) < len(prepared.test)


def test_given_files_that_cross_the_wall_of_the_split_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    write(tmp_path / "b.csv", rows=30, first=60)
    for split in (GroupSplit(kind="group", column="g"), TimeSplit(kind="time", column="t")):
        data = section(split, train_path="a.csv", test_path="b.csv")
        with pytest.raises(DataMistake) as caught:
            made(tmp_path, data)
        assert caught.value.problems[0].path == "data.split.column"


def test_a_given_test_file_is_the_test_part(tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    write(tmp_path / "b.csv", rows=30, first=90)
    data = section(TimeSplit(kind="time", column="t"), train_path="a.csv", test_path="b.csv")
    prepared = made(tmp_path, data)
    assert prepared.test.rows.tolist() == list(range(30))
    assert len(prepared.train) + len(prepared.validation) == 90
    assert prepared.split.kind == "time"


@pytest.mark.parametrize("validated", [False, True])
def test_gap_and_window_are_kept_towards_given_files(tmp_path: Path, validated: bool) -> None:
    write(tmp_path / "a.csv")
    write(tmp_path / "b.csv", rows=30, first=90)
    write(tmp_path / "c.csv", rows=30, first=140)
    split = TimeSplit(kind="time", column="t", gap=5.0, window=20.0)
    files = {"val_path": "b.csv", "test_path": "c.csv"} if validated else {"test_path": "b.csv"}
    prepared = made(tmp_path, section(split, train_path="a.csv", **files))
    times = [part.frame["t"] for part in (prepared.train, prepared.validation, prepared.test)]
    for earlier, later in pairwise(times):
        assert later.min() - earlier.max() >= 5
    assert times[0].max() - times[0].min() <= 20
    if validated:
        assert [len(one) for one in times] == [42, 30, 30]
        assert prepared.split.left_out == 90 - 42


def test_a_validation_file_that_is_too_near_to_the_test_file_is_refused(tmp_path: Path) -> None:
    for name, first in (("a.csv", 0), ("b.csv", 110), ("c.csv", 140)):
        write(tmp_path / name, rows=30, first=first)
    split = TimeSplit(kind="time", column="t", gap=3.0)
    files = {"train_path": "a.csv", "val_path": "b.csv", "test_path": "c.csv"}
    with pytest.raises(DataMistake) as caught:
        made(tmp_path, section(split, **files))
    (problem,) = caught.value.problems
    assert (problem.path, problem.message[:6]) == ("data.split.gap", "4 rows")


@pytest.mark.parametrize("wrong", ["soon", "2020-01-01", ""])
def test_times_of_a_file_that_are_no_times_are_refused(wrong: str, tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    write(tmp_path / "b.csv", rows=30, first=200)
    rows = pl.read_csv(tmp_path / "b.csv").with_columns(t=pl.lit(wrong))
    rows.write_csv(tmp_path / "b.csv")
    split = TimeSplit(kind="time", column="t")
    with pytest.raises(DataMistake, match="the timestamps of the test file are unlike") as caught:
        made(tmp_path, section(split, train_path="a.csv", test_path="b.csv"))
    (problem,) = caught.value.problems
    assert problem.path == "data.split.column"
    assert problem.found == f"{repr(wrong) if wrong else 'no value in 30 rows'} in 't'"


@pytest.mark.parametrize("count", [1, 5, 9])
def test_of_many_strange_parts_the_first_are_told(count: int, tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    names = [*(f"part {at}" for at in range(count)), *["train", "test", "validation"] * 30][:90]
    rows = pl.read_csv(tmp_path / "a.csv").with_columns(part=pl.Series(names))
    rows.write_csv(tmp_path / "a.csv")
    with pytest.raises(DataMistake) as caught:
        made(tmp_path, section(ColumnSplit(kind="column", column="part")))
    (problem,) = caught.value.problems
    assert problem.message.endswith(f"in {count} row{'' if count == 1 else 's'}")
    told = ", ".join(f"'part {at}'" for at in range(min(5, count)))
    assert problem.found == told + (" and others" if count > 5 else "")


def test_a_gap_that_leaves_nothing_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    write(tmp_path / "b.csv", rows=30, first=90)
    write(tmp_path / "c.csv", rows=30, first=3000)
    split = TimeSplit(kind="time", column="t", gap=1000.0)
    with pytest.raises(DataMistake, match="train part would be empty"):
        made(tmp_path, section(split, train_path="a.csv", val_path="b.csv", test_path="c.csv"))


def test_the_version_follows_content_split_and_features_and_not_names(tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    write(tmp_path / "b.csv")
    split = RandomSplit(kind="random")
    version = made(tmp_path, section(split)).version
    assert len(version) == 64
    assert made(tmp_path, section(split)).version == version
    assert made(tmp_path, section(split, path="b.csv")).version == version
    assert made(tmp_path, section(split), seed=1).version != version
    other = section(split).model_copy(
        update={"features": FeaturesSection(numeric="standard", impute="none")}
    )
    assert made(tmp_path, other).version != version
    with (tmp_path / "b.csv").open("a") as stream:
        stream.write("1,2,3,no,4\n")
    assert made(tmp_path, section(split, path="b.csv")).version != version


def test_new_labelled_rows_become_a_part(tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    prepared = made(tmp_path, section(GroupSplit(kind="group", column="g")))
    part = read_part(read_source("a.csv", tmp_path).frame, prepared.features, prepared.target)
    assert (part.target[prepared.test.rows] == prepared.test.target).all()
    assert part.frame["g"].dtype == pl.Float64
    with pytest.raises(DataMistake, match="holds the target"):
        read_part(part.frame.drop("y"), prepared.features, prepared.target)
    strange = part.frame.with_columns(pl.lit("other").alias("y"))
    with pytest.raises(DataMistake) as caught:
        read_part(strange, prepared.features, prepared.target)
    assert caught.value.problems[0].fix.startswith("correct column 'y' in rows 1, 2, 3, 4, 5 and ")


def test_regression_keeps_values_and_training_moments(tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    prepared = made(tmp_path, section(RandomSplit(kind="random"), target="v"), "regression")
    assert isinstance(prepared.target, Numbers)
    assert prepared.target.mean == prepared.train.target.mean()
    assert prepared.target.deviation == prepared.train.target.std()
    assert prepared.target.outputs == 1


def test_the_task_decides_over_the_look_of_the_target(tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    many = section(StratifiedSplit(kind="stratified"), target="g")
    assert read_table(many, tmp_path).facts.target.kind == "numbers"
    classes = made(tmp_path, many)
    assert isinstance(classes.target, Classes)
    assert classes.split.class_shares
    few = pl.DataFrame({"x": [i % 7 for i in range(60)], "v": [i % 3 for i in range(60)]})
    few.write_csv(tmp_path / "a.csv")
    data = section(RandomSplit(kind="random"), target="v")
    assert read_table(data, tmp_path).facts.target.kind == "classes"
    numbers = made(tmp_path, data, "regression")
    assert set(numbers.train.target) == {0.0, 1.0, 2.0}
    assert numbers.split.target_mean
    few.with_columns(v=pl.Series(["a", "b", "c"] * 20)).write_csv(tmp_path / "a.csv")
    with pytest.raises(DataMistake, match="no number"):
        made(tmp_path, data, "regression")


def test_the_positive_class() -> None:
    labels = pl.Series("y", ["no"] * 5 + ["yes"] * 3)
    assert fit_target(labels, "classification", "auto") == Classes("y", ("no", "yes"), 1)
    common = pl.Series("y", ["no"] * 3 + ["yes"] * 5)
    assert fit_target(common, "classification", "auto") == Classes("y", ("no", "yes"), 1)
    rarer = pl.Series("y", ["a"] * 5 + ["b"] * 3)
    assert fit_target(rarer, "classification", "auto") == Classes("y", ("a", "b"), 1)
    assert fit_target(labels, "classification", "no") == Classes("y", ("no", "yes"), 0)
    with pytest.raises(DataMistake, match="did you mean 'yes'"):
        fit_target(labels, "classification", "Yes")


def test_targets_survive_json_and_refuse_strange_values() -> None:
    classes = fit_target(pl.Series("y", ["1", "0", "2"]), "classification", "auto")
    again = target_from_json(json.loads(json.dumps(classes.to_json())))
    assert again == classes
    assert again.encode(pl.Series([2.0, 0.0])).tolist() == [2, 0]
    with pytest.raises(DataMistake, match="'3', 'missing'"):
        again.encode(pl.Series(["3", None, "1"]))
    numbers = Numbers("y", 0.1, 0.3)
    assert target_from_json(json.loads(json.dumps(numbers.to_json()))) == numbers
    with pytest.raises(DataMistake, match="no number"):
        numbers.encode(pl.Series(["1", "two"]))
    with pytest.raises(DataMistake, match="one class only"):
        fit_target(pl.Series("y", ["a", "a"]), "classification", "auto")


@pytest.mark.parametrize("first", [84, 120])
def test_validation_rows_that_are_no_older_than_drawn_test_rows_are_refused(
    first: int, tmp_path: Path
) -> None:
    write(tmp_path / "a.csv", rows=100)
    write(tmp_path / "b.csv", rows=30, first=first)
    split = TimeSplit(kind="time", column="t", gap=5.0)
    with pytest.raises(DataMistake, match="too near to the test rows, or not older"):
        made(tmp_path, section(split, train_path="a.csv", val_path="b.csv"))
