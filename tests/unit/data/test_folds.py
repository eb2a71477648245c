"""Folds, gaps and keys: every row where it belongs, and nothing moves without need."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from faults.tiers import in_test
from trainwright.contract.sections.data.quality import Quality
from trainwright.contract.sections.data.split import (
    ColumnSplit,
    GroupSplit,
    RandomSplit,
    Split,
    StratifiedGroupSplit,
    StratifiedSplit,
    TimeSplit,
)
from trainwright.contract.sections.data.table_data import Features, TableData
from trainwright.core.errors import DataMistake
from trainwright.data.base.inputs import Integers
from trainwright.data.prepare_table import prepare_fold, prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.split.fold_split import NEVER, Folds, cut_folds
from trainwright.data.split.random_split import (
    LEFT_OUT,
    TEST,
    TRAIN,
    VALIDATION,
    Shares,
    shares_of_keys,
)
from trainwright.data.split.splits import split_rows
from trainwright.data.split.time_split import time_blocks

ROWS = 600
GENERATOR = np.random.default_rng(3)
FRAME = pl.DataFrame(
    {
        "x": GENERATOR.normal(size=ROWS),
        "g": [f"g{i}" for i in GENERATOR.integers(0, 60, ROWS)],
        "t": GENERATOR.integers(0, 90, ROWS).astype(float),
        "id": [f"id{i}" for i in range(ROWS)],
        "fold": [f"f{i}" for i in GENERATOR.integers(0, 4, ROWS)],
        "y": ["rare" if i % 10 == 0 else "common" for i in range(ROWS)],
    }
)
KINDS: tuple[Split, ...] = (
    RandomSplit(kind="random", folds=4),
    RandomSplit(kind="random", key="id", folds=4),
    StratifiedSplit(kind="stratified", folds=4),
    GroupSplit(kind="group", column="g", folds=4),
    GroupSplit(kind="group", column="g", assign="hashed", folds=4),
    StratifiedGroupSplit(kind="stratified_group", column="g", folds=4),
    TimeSplit(kind="time", column="t", folds=4, gap=2.0),
    ColumnSplit(kind="column", column="fold", folds=4),
)


def cut(split: Split, frame: pl.DataFrame = FRAME, seed: int = 0) -> Folds:
    return cut_folds(frame, "y", split, seed)


def single(split: Split, frame: pl.DataFrame = FRAME, seed: int = 0) -> Integers:
    return split_rows(frame, "y", split, Shares.of(split, frozenset()), seed)


@pytest.mark.parametrize("split", KINDS, ids=lambda split: f"{split.kind}")
def test_every_row_is_tested_once_and_never_by_a_model_that_saw_it(split: Split) -> None:
    folds = cut(split)
    tested = np.zeros(ROWS, dtype=int)
    for number in range(folds.count):
        parts = folds.parts(number)
        assert ((parts == TEST) == (folds.of_row == number)).all()
        assert set(parts) >= {TRAIN, VALIDATION, TEST}
        tested += parts == TEST
    assert (tested == (folds.of_row != NEVER)).all()
    assert (folds.of_row == cut(split).of_row).all()
    whole = folds.whole()
    assert set(whole) == {TRAIN, VALIDATION} | ({LEFT_OUT} if split.kind == "time" else set())


def test_random_and_stratified_folds_are_of_one_size() -> None:
    assert np.bincount(cut(RandomSplit(kind="random", folds=7)).of_row).tolist() == [
        86, 86, 86, 85, 86, 86, 85,
    ]  # fmt: skip
    by_class = cut(StratifiedSplit(kind="stratified", folds=4)).of_row
    assert np.bincount(by_class).tolist() == [150] * 4
    assert np.bincount(by_class[FRAME["y"] == "rare"]).tolist() == [15] * 4


@pytest.mark.parametrize("column", ["g"])
def test_group_folds_keep_groups_whole(column: str) -> None:
    for split in KINDS[3:6]:
        for parts in [cut(split).parts(number) for number in range(4)]:
            for group in FRAME[column].unique():
                assert len(set(parts[(FRAME[column] == group).to_numpy()])) == 1


def test_stratified_groups_have_like_class_shares() -> None:
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(120), random.integers(2, 20, 120))
    chance = random.beta(0.3, 0.7, 120)[groups]
    frame = pl.DataFrame(
        {"g": groups, "y": np.where(random.random(len(groups)) < chance, "a", "b")}
    )

    def spread(parts: Integers) -> float:
        shares = [float((frame["y"].filter(parts == part) == "a").mean()) for part in range(3)]  # type: ignore[arg-type]
        return max(shares) - min(shares)

    stratified = StratifiedGroupSplit(kind="stratified_group", column="g")
    for seed in range(5):
        parts = single(stratified, frame, seed)
        assert (
            spread(parts) < 0.01 < spread(single(GroupSplit(kind="group", column="g"), frame, seed))
        )
        assert np.abs(np.bincount(parts) / len(parts) - [0.7, 0.15, 0.15]).max() < 0.02
        assert frame.with_columns(p=parts).group_by("g").n_unique()["p"].max() == 1
    with pytest.raises(DataMistake, match="needs classes"):
        single(stratified, frame.with_columns(y=pl.lit(1.0)))


def test_the_origin_rolls_and_the_gap_is_kept() -> None:
    folds = cut(TimeSplit(kind="time", column="t", folds=4, gap=3.0, window=30.0))
    times = FRAME["t"].to_numpy()
    last = -1.0
    for number in range(4):
        parts = folds.parts(number)
        first = times[parts == TEST].min()
        assert first - times[parts == VALIDATION].max() >= 3.0
        assert times[parts == VALIDATION].min() - times[parts == TRAIN].max() >= 3.0
        assert np.ptp(times[parts == TRAIN]) <= 30.0
        near = (times < first) & (first - times < 3.0)
        assert near.any()
        assert (parts[near] == LEFT_OUT).all()
        assert first > last
        last = first
    sizes = np.bincount(folds.of_row + 1)
    assert np.abs(sizes - ROWS / 5).max() < 12


@settings(max_examples=60)
@example(times=[0, 1] + [2] * 8 + [3] * 8, count=4)
@given(times=st.lists(st.integers(0, 40), min_size=1, max_size=150), count=st.integers(2, 7))
def test_stretches_are_cut_between_moments(times: list[int], count: int) -> None:
    ranks = pl.Series(times).rank("dense").cast(pl.Int64).to_numpy()
    found = time_blocks(ranks, count)
    assert (np.diff(found[np.argsort(ranks, kind="stable")]) >= 0).all()
    assert all(len(set(found[ranks == rank])) == 1 for rank in set(ranks))
    if len(set(times)) >= count:
        assert set(found) == set(range(count))


def test_a_gap_in_days_of_a_date() -> None:
    days = pl.datetime_range(
        pl.datetime(2024, 1, 1), pl.datetime(2024, 4, 9), interval="12h", eager=True
    )
    frame = pl.DataFrame({"t": days, "y": [1.0] * len(days)})
    parts = single(TimeSplit(kind="time", column="t", gap=7.0), frame)
    first = frame["t"].filter(parts == VALIDATION).min()
    last = frame["t"].filter(parts == TRAIN).max()
    assert (first - last).total_seconds() / 86400 == 7.0  # type: ignore[operator]
    assert int((parts == LEFT_OUT).sum()) == 2 * 13
    with pytest.raises(DataMistake, match="part would be empty"):
        single(TimeSplit(kind="time", column="t", gap=99.0), frame)


@pytest.mark.parametrize(
    "split",
    [
        RandomSplit(kind="random", key="id"),
        RandomSplit(kind="random", key="*"),
        GroupSplit(kind="group", column="g", assign="hashed"),
    ],
    ids=["column", "cells", "groups"],
)
def test_no_row_moves_when_others_come_go_or_change_places(split: Split) -> None:
    order = np.random.default_rng(1).permutation(ROWS)[: ROWS // 2]
    for cutting in (
        single,
        lambda *args: cut(args[0].model_copy(update={"folds": 5}), args[1]).of_row,
    ):
        assert (cutting(split, FRAME[order]) == cutting(split, FRAME)[order]).all()
        assert len(set(cutting(split, FRAME))) >= 3


def test_what_a_keyed_row_gets_never_changes() -> None:
    keys = pl.Series(["a", "b", None, "a"])
    places = shares_of_keys(keys, 7, "split")
    assert places.round(6).tolist() == [0.770913, 0.830588, 0.357461, 0.770913]
    many = shares_of_keys(pl.Series([str(i) for i in range(20_000)]), 0, "split")
    assert np.abs(np.histogram(many, 10, (0, 1))[0] / 2000 - 1).max() < 0.1


def test_equal_rows_are_on_one_side_by_their_cells() -> None:
    twice = pl.concat([FRAME, FRAME])
    parts = single(RandomSplit(kind="random", key="*"), twice)
    assert (parts[:ROWS] == parts[ROWS:]).all()
    assert np.abs(np.bincount(parts) / (2 * ROWS) - [0.7, 0.15, 0.15]).max() < 0.05


@pytest.mark.parametrize("folds", ["off", 3])
def test_a_row_number_parts_no_equal_rows(tmp_path: Path, folds: int) -> None:
    twice = pl.concat([FRAME, FRAME]).with_row_index("rownames", offset=1)
    twice.write_csv(tmp_path / "a.csv")
    data = section(RandomSplit.model_validate({"kind": "random", "key": "*", "folds": folds}))
    raw = read_table(data, tmp_path)
    prepared = prepare_table(raw, data, "classification", 0)
    if folds != "off":
        prepared = prepare_fold(raw, data, "classification", 0, 1)
    held_out = set(prepared.test.rows.tolist())
    assert {(row + ROWS) % (2 * ROWS) for row in held_out} == held_out


DECIDED = Features(numeric="none", impute="median")


def section(split: Split, target: str = "y") -> TableData:
    return TableData(path="a.csv", target=target, split=split, features=DECIDED)


def test_folds_are_prepared_each_on_its_own_training_rows(tmp_path: Path) -> None:
    FRAME.write_csv(tmp_path / "a.csv")
    data = section(StratifiedSplit(kind="stratified", folds=3))
    raw = read_table(data, tmp_path)
    whole = prepare_table(raw, data, "classification", 0)
    assert whole.test.rows.tolist() == list(range(ROWS))
    assert [dict(rows) for rows in whole.split.folds] == [
        {"train": 340, "validation": 60, "test": 200}
    ] * 3
    fitted = set()
    for number in range(3):
        fold = prepare_fold(raw, data, "classification", 0, number)
        assert len({*fold.train.rows, *fold.validation.rows, *fold.test.rows}) == ROWS
        fitted.add(str(fold.features.to_json()) + fold.version)
    assert len({*fitted, whole.version}) == 4
    other = section(StratifiedSplit(kind="stratified", folds=2))
    assert prepare_table(raw, other, "classification", 0).version != whole.version


@pytest.mark.parametrize(
    ("frame", "split", "message"),
    [
        (FRAME[:20], StratifiedSplit(kind="stratified", folds=4), "rare \\(2\\)"),
        (FRAME[:3], RandomSplit(kind="random", folds=4), "too few rows"),
        (FRAME[:60].with_columns(g=pl.lit("a")), KINDS[3], "too few groups for 4"),
        (FRAME.with_columns(t=pl.lit(1.0)), KINDS[6], "too few different times"),
        (FRAME, ColumnSplit(kind="column", column="fold", folds=5), "does not name 5 folds"),
    ],
)
def test_what_cannot_be_cut(frame: pl.DataFrame, split: Split, message: str) -> None:
    with pytest.raises(DataMistake, match=message) as caught:
        cut(split, frame)
    assert caught.value.problems[0].fix


def test_a_class_that_only_one_fold_has_is_refused(tmp_path: Path) -> None:
    labels = ["c" if i in (3, 5) else str(i % 2) for i in range(ROWS)]
    named = ["a" if label == "c" else "abd"[i % 3] for i, label in enumerate(labels)]
    frame = FRAME.with_columns(y=pl.Series(labels), fold=pl.Series(named))
    frame.write_csv(tmp_path / "a.csv")
    data = section(ColumnSplit(kind="column", column="fold", folds=3))
    with pytest.raises(DataMistake, match="the training rows of fold 1 lack classes"):
        prepare_table(read_table(data, tmp_path), data, "classification", 0)


@pytest.mark.parametrize("split", in_test(2, KINDS), ids=lambda split: split.kind)
def test_rows_that_train_and_test_by_turns_are_no_copies(split: Split, tmp_path: Path) -> None:
    FRAME.write_csv(tmp_path / "a.csv")
    plain = TableData(path="a.csv", target="y", split=split, features=DECIDED)
    asked = plain.model_copy(
        update={"quality": Quality(actions={"exact_duplicates": "drop", "constant": "fail"})}
    )
    bare, acted = (
        prepare_table(read_table(section, tmp_path), section, "classification", seed=0)
        for section in (plain, asked)
    )
    assert acted.done == ()
    assert acted.train.rows.tolist() == bare.train.rows.tolist()


ALONE: list[Split] = [
    GroupSplit(kind="group", column="g"),
    GroupSplit(kind="group", column="g", assign="hashed"),
    StratifiedGroupSplit(kind="stratified_group", column="g"),
    RandomSplit(kind="random", key="g"),
]


@pytest.mark.parametrize("split", ALONE, ids=lambda split: f"{split.kind}")
def test_a_row_without_a_group_is_one_of_its_own(split: Split) -> None:
    named = FRAME["g"].is_in(["g1", "g2", "g3"])
    rows = FRAME.with_columns(g=pl.when(named).then("g"))
    parts = split_rows(rows, "y", split, Shares.of(split, frozenset()), 0)
    folds = cut_folds(rows, "y", split.model_copy(update={"folds": 4}), 0)
    for codes, most in ((parts, 0.8), (folds.of_row, 0.4)):
        alone = np.bincount(codes[rows["g"].is_null().to_numpy()]) / rows["g"].null_count()
        assert (alone > 0.05).all()
        assert alone.max() < most
        for name in ("g1", "g2", "g3"):
            assert len(np.unique(codes[(rows["g"] == name).fill_null(False).to_numpy()])) == 1


def test_intervals_draw_rows_without_a_group_one_by_one(tmp_path: Path) -> None:
    rows = FRAME.with_columns(g=pl.when(pl.int_range(pl.len()) % 3 == 0).then("g"))
    first = pl.col("g").fill_null("g0") < "g3"
    rows.head(400).filter(first).write_csv(tmp_path / "a.csv")
    rows.tail(200).filter(first.not_() | pl.col("g").is_null()).write_csv(tmp_path / "b.csv")
    split = GroupSplit(kind="group", column="g")
    features = Features(numeric="none", impute="none")
    section = TableData(
        train_path="a.csv", test_path="b.csv", target="y", split=split, features=features
    )
    raw = read_table(section, tmp_path)
    prepared = prepare_table(raw, section, "classification", seed=0)
    for part in (prepared.train, prepared.test):
        alone = part.frame["g"].is_null().to_numpy()
        assert len(np.unique(part.units[alone])) == alone.sum() > 50
    missing = sum(frame["g"].null_count() for frame in raw.frames.values())
    assert f"{missing} rows have no 'g': each is split by itself" in dict(raw.remarks)["note"]
