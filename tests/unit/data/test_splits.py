"""Splits: sizes, shares, walls between groups and times, and what cannot be divided."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.contract.sections.data.split import (
    ColumnSplit,
    GroupSplit,
    RandomSplit,
    Split,
    StratifiedSplit,
    TimeSplit,
)
from trainwright.core.errors import DataMistake
from trainwright.data.base.inputs import Integers
from trainwright.data.split.random_split import PARTS, Shares, random_keys
from trainwright.data.split.split_report import report_split
from trainwright.data.split.splits import split_rows
from trainwright.data.split.time_split import time_units

RANDOM = RandomSplit(kind="random")
STRATIFIED = StratifiedSplit(kind="stratified")


def frame(rows: int = 200) -> pl.DataFrame:
    generator = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "x": generator.normal(size=rows),
            "g": [f"g{i}" for i in generator.integers(0, 25, rows)],
            "t": generator.integers(0, 60, rows).astype(float),
            "y": ["rare" if i % 10 == 0 else "common" for i in range(rows)],
        }
    )


def parts_of(data: pl.DataFrame, split: Split, seed: int = 0, given: str = "") -> Integers:
    shares = Shares.of(split, frozenset(given.split()))
    return split_rows(data, "y", split, shares, seed)


def test_a_split_is_a_function_of_the_seed() -> None:
    first = parts_of(frame(), RANDOM, 1)
    assert (first == parts_of(frame(), RANDOM, 1)).all()
    assert (first != parts_of(frame(), RANDOM, 2)).any()
    assert np.bincount(first).tolist() == [140, 30, 30]


def test_the_random_words_never_change() -> None:
    assert random_keys(2, 7, "split").tolist() == [12069258386928288510, 4015391821296479512]


def test_a_part_with_its_own_file_is_not_divided_off() -> None:
    assert np.bincount(parts_of(frame(), RANDOM, given="test"), minlength=3).tolist() == [
        170,
        30,
        0,
    ]
    counts = np.bincount(parts_of(frame(), RANDOM, given="validation"), minlength=3)
    assert counts.tolist() == [170, 0, 30]
    assert not parts_of(frame(), RANDOM, given="validation test").any()


@settings(max_examples=50, deadline=None)
@given(
    counts=st.lists(st.integers(3, 60), min_size=2, max_size=5),
    validation=st.floats(0.05, 0.4),
    test=st.floats(0.05, 0.4),
    seed=st.integers(0, 2**32 - 1),
)
def test_stratified_keeps_class_shares_within_a_row(
    counts: list[int], validation: float, test: float, seed: int
) -> None:
    labels = [f"c{i}" for i, count in enumerate(counts) for _ in range(count)]
    split = StratifiedSplit(kind="stratified", validation=validation, test=test)
    parts = parts_of(pl.DataFrame({"y": labels}), split, seed)
    for i, count in enumerate(counts):
        mine = np.bincount(parts[np.array(labels) == f"c{i}"], minlength=3)
        assert abs(mine[1] - count * validation) <= 1
        assert abs(mine[2] - count * test) <= 1
        assert (mine > 0).all()


@settings(max_examples=50, deadline=None)
@given(sizes=st.lists(st.integers(1, 30), min_size=3, max_size=40), seed=st.integers(0, 2**32 - 1))
def test_no_group_falls_on_two_sides(sizes: list[int], seed: int) -> None:
    groups = [float(i) for i, size in enumerate(sizes) for _ in range(size)]
    data = pl.DataFrame({"g": groups, "y": [0.5] * len(groups)})
    parts = parts_of(data, GroupSplit(kind="group", column="g"), seed)
    assert set(parts) == {0, 1, 2}
    for group in set(groups):
        assert len(set(parts[np.array(groups) == group])) == 1


def test_group_shares_are_approached_by_rows() -> None:
    sizes = [400, 3, 5, *[10] * 60]
    data = pl.DataFrame({"g": [str(i) for i, n in enumerate(sizes) for _ in range(n)]})
    data = data.with_columns(y=pl.lit(1.0))
    for seed in range(20):
        counts = np.bincount(parts_of(data, GroupSplit(kind="group", column="g"), seed))
        assert np.abs(counts / data.height - [0.7, 0.15, 0.15]).max() < 0.02


@settings(max_examples=50, deadline=None)
@given(times=st.lists(st.integers(0, 30), min_size=3, max_size=120))
def test_no_moment_falls_on_two_sides_and_the_oldest_train(times: list[int]) -> None:
    data = pl.DataFrame({"t": [float(t) for t in times], "y": [0.5] * len(times)})
    split = TimeSplit(kind="time", column="t")
    if len(set(times)) < 3:
        with pytest.raises(DataMistake, match="different times"):
            parts_of(data, split)
        return
    parts, moments = parts_of(data, split), np.array(times)
    assert moments[parts == 0].max() < moments[parts == 1].min()
    assert moments[parts == 1].max() < moments[parts == 2].min()


def test_time_shares() -> None:
    data = pl.DataFrame({"t": np.arange(200.0)[::-1].copy(), "y": [0.5] * 200})
    parts = parts_of(data, TimeSplit(kind="time", column="t"))
    assert np.bincount(parts).tolist() == [140, 30, 30]
    assert parts[0] == 2


def test_the_parts_a_column_says() -> None:
    data = pl.DataFrame({"p": ["test", "train", "validation", "train"], "y": [0.5] * 4})
    assert parts_of(data, ColumnSplit(kind="column", column="p")).tolist() == [2, 0, 1, 0]
    with pytest.raises(DataMistake, match="'val'"):
        parts_of(data.with_columns(p=pl.lit("val")), ColumnSplit(kind="column", column="p"))


@pytest.mark.parametrize(
    ("data", "split", "message"),
    [
        (pl.DataFrame({"y": [1.0, 2.0]}), RANDOM, "too few rows"),
        (pl.DataFrame({"y": [1.0, 2.0]}), STRATIFIED, "needs classes"),
        (pl.DataFrame({"y": ["a"] * 9 + ["b"] * 2}), STRATIFIED, "b \\(2\\)"),
        (
            pl.DataFrame({"g": ["a", "a", "b"], "y": [1.0] * 3}),
            GroupSplit(kind="group", column="g"),
            "too few groups",
        ),
        (
            pl.DataFrame({"t": [1.0, None, 2.0], "y": [1.0] * 3}),
            TimeSplit(kind="time", column="t"),
            "no time",
        ),
        (
            pl.DataFrame({"t": ["x", "y", "z"], "y": [1.0] * 3}),
            TimeSplit(kind="time", column="t"),
            "not a time",
        ),
        (frame(), RandomSplit(kind="random", test=0.0), "test part would be empty"),
        (frame(), RandomSplit(kind="random", test=0.6, validation=0.5), "no training rows"),
    ],
)
def test_what_cannot_be_divided(data: pl.DataFrame, split: Split, message: str) -> None:
    with pytest.raises(DataMistake, match=message) as caught:
        parts_of(data, split)
    assert all(problem.fix for problem in caught.value.problems)


def test_units_of_time_are_contiguous_stretches() -> None:
    ranks = np.arange(1000)[::-1]
    units = time_units(ranks)
    assert np.unique(units, return_counts=True)[1].tolist() == [10] * 100
    assert (np.diff(units) <= 0).all()


def test_the_report_counts_what_crosses_the_walls() -> None:
    split = GroupSplit(kind="group", column="g")
    frames = {
        "train": pl.DataFrame({"g": ["a", "b"], "x": [1.0, 2.0], "y": [1.0, 3.0]}),
        "validation": pl.DataFrame({"g": ["b", "c"], "x": [1.0, 2.0], "y": [1.0, 4.0]}),
        "test": pl.DataFrame({"g": ["d"], "x": [5.0], "y": [1.0]}),
    }
    report = report_split(frames, split, "y", ["x", "y"], made=False)  # type: ignore[arg-type]
    assert (report.kind, report.groups_on_two_sides, report.duplicate_rows) == ("given", 1, 1)
    assert dict(report.groups) == {"train": 2, "validation": 2, "test": 1}
    assert report.target_mean["train"] == 2.0
    time = TimeSplit(kind="time", column="x")
    late = report_split(frames, time, "y", ["y"], made=True)  # type: ignore[arg-type]
    assert late.future_rows_in_training == 2
    assert late.time_ranges["test"] == ("5.0", "5.0")
    assert set(late.to_json()["rows"]) == set(PARTS)
