"""Rows in files are the rows in memory, to the last bit."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from faults.tiers import each, in_test
from trainwright.contract.sections.data.data_traits import (
    Balanced,
    Blocks,
    Curriculum,
    Mixture,
    Sampling,
    Weighted,
)
from trainwright.contract.sections.data.quality import Quality
from trainwright.contract.sections.data.sources import Reading
from trainwright.contract.sections.data.split import (
    EVERY_COLUMN,
    ColumnSplit,
    FileSplit,
    GroupSplit,
    RandomSplit,
    Split,
    StratifiedGroupSplit,
    StratifiedSplit,
    TimeSplit,
)
from trainwright.contract.sections.data.table_data import Column, Features, Scaling, TableData
from trainwright.core.errors import DataMistake
from trainwright.data.base import row_storage as space_module
from trainwright.data.base.row_storage import IN_MEMORY, InFiles
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import RawTable, read_table
from trainwright.data.sampling.build_sampler import build_sampler
from trainwright.data.split.random_split import Shares
from trainwright.data.split.splits import split_rows
from trainwright.data.types import Prepared

ROWS = 5000
SPLITS: dict[str, Split] = {
    "random": RandomSplit(kind="random"),
    "random by a key": RandomSplit(kind="random", key="day"),
    "random by all cells": RandomSplit(kind="random", key=EVERY_COLUMN),
    "stratified": StratifiedSplit(kind="stratified"),
    "group": GroupSplit(kind="group", column="shop"),
    "group, some without": GroupSplit(kind="group", column="color"),
    "hashed group": GroupSplit(kind="group", column="shop", assign="hashed"),
    "stratified group": StratifiedGroupSplit(kind="stratified_group", column="shop"),
    "time": TimeSplit(kind="time", column="day", gap=2.0),
    "time, a window": TimeSplit(kind="time", column="day", gap=3.0, window=300.0),
    "time, a number": TimeSplit(kind="time", column="id", gap=40.0),
    "column": ColumnSplit(kind="column", column="part"),
    "file": FileSplit(kind="file", path="split.csv"),
    "file by a key": FileSplit(kind="file", path="split.csv", key="id"),
}


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many slices of few rows."""
    monkeypatch.setattr(space_module, "SLICE_ROWS", 700)


def table() -> pl.DataFrame:
    draw = np.random.default_rng(7)
    days = pl.date_range(pl.date(2020, 1, 1), pl.date(2021, 12, 31), eager=True)
    size = draw.lognormal(size=ROWS)
    return pl.DataFrame(
        {
            "id": np.arange(ROWS),
            "size": [None if i % 13 == 0 else v for i, v in enumerate(size)],
            "late": [None if i < 900 else float(v) for i, v in enumerate(draw.normal(size=ROWS))],
            "color": [("red", "green", None, "blue")[v] for v in draw.integers(0, 4, ROWS)],
            "shop": [f"s{v}" for v in draw.integers(0, 40, ROWS)],
            "day": days.gather(draw.integers(0, len(days), ROWS)),
            # Words in the file, and numbers in the rows that have `late`.
            "tag": ["none" if i < 900 else str(i % 7) for i in range(ROWS)],
            "note": [f"{v:.9f} of many words here" for v in draw.normal(size=ROWS)],
            "y": [
                None if i % 500 == 3 else int(v) for i, v in enumerate(draw.integers(0, 3, ROWS))
            ],
        }
    )


def both(
    folder: Path,
    name: str,
    split: Split,
    numeric: Scaling = "quantile",
    task: str = "classification",
    target: str = "y",
    test_path: str = "",
    **said: Any,
) -> list[tuple[RawTable, Prepared]]:
    """The data prepared in memory, and in files."""
    made = []
    for rows_in in ("memory", "files"):
        section = TableData(
            path=name,
            test_path=test_path,
            target=target,
            split=split,
            missing_target="drop",
            features=Features(numeric=numeric, impute="median"),
            reading=Reading(cache="cache", rows_in=rows_in),  # type: ignore[arg-type]
            **said,
        )
        raw = read_table(section, folder)
        made.append((raw, prepare_table(raw, section, task, seed=3)))  # type: ignore[arg-type]
    return made


def assert_same(made: list[tuple[RawTable, Prepared]]) -> None:
    (memory, one), (files, other) = made
    assert memory.space is IN_MEMORY
    assert isinstance(files.space, InFiles)
    assert memory.facts.to_json() == files.facts.to_json()
    assert memory.notes == files.notes
    assert one.version == other.version
    assert one.table.to_json() == other.table.to_json()
    assert one.target.to_json() == other.target.to_json()
    assert one.split.to_json() == other.split.to_json()
    for name in ("train", "validation", "test"):
        ours, theirs = getattr(one, name), getattr(other, name)
        assert ours.frame.equals(theirs.frame)
        assert ours.inputs.numeric.tobytes() == theirs.inputs.numeric.tobytes()
        assert ours.inputs.categories.tobytes() == theirs.inputs.categories.tobytes()
        for field in ("target", "rows", "units"):
            assert getattr(ours, field).tobytes() == getattr(theirs, field).tobytes()


def write_split_table(folder: Path) -> None:
    draw = np.random.default_rng(8)
    parts = pl.Series("part", [("train", "validation", "test")[v] for v in draw.choice(3, ROWS)])
    table().with_columns(parts).write_parquet(folder / "a.parquet")
    lines = pl.DataFrame({"id": range(ROWS), "row": range(ROWS), "part": parts})
    lines.sample(fraction=1.0, shuffle=True, seed=0).write_csv(folder / "split.csv")


@pytest.mark.parametrize("name", in_test(3, list(SPLITS)))
def test_every_split_is_the_same(name: str, tmp_path: Path) -> None:
    write_split_table(tmp_path)
    assert_same(both(tmp_path, "a.parquet", SPLITS[name]))


@pytest.mark.parametrize("name", ["group", "stratified group", "time, a window", "time, a number"])
def test_slices_change_no_split(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame, split = table(), SPLITS[name]
    frame = frame.with_columns(pl.col("y").cast(pl.String), pl.col("day").cast(pl.Datetime("us")))
    shares = Shares.of(split, frozenset())
    found = []
    for rows in (700, 65_536):
        monkeypatch.setattr(space_module, "SLICE_ROWS", rows)
        found.append(split_rows(frame, "y", split, shares, 3, InFiles(tmp_path)))
    assert (found[0] == found[1]).all()
    assert len(np.unique(found[0])) > 2


def test_files_of_parts_are_kept_apart_alike(tmp_path: Path) -> None:
    frame = table().sort("day")
    frame.head(3000).write_parquet(tmp_path / "a.parquet")
    frame.tail(1000).write_parquet(tmp_path / "test.parquet")
    split = TimeSplit(kind="time", column="day", gap=9.0, window=200.0)
    made = both(tmp_path, "a.parquet", split, test_path="test.parquet")
    assert_same(made)
    assert made[0][1].split.left_out > 500


COLUMNS = {
    "size": Column(range=(0.2, 3.0)),
    "late": Column(range=(-1.5, 2.0), nullable=False),
    "color": Column(allowed=("red", "green")),
    "shop": Column(pattern="s[1-3].*"),
    "tag": Column(range=(0.0, 4.0)),
    "id": Column(range=(0.0, 9e9), kind="numeric"),
    "y": Column(allowed=("0", "1", "2")),
}


@pytest.mark.parametrize(
    "actions",
    in_test(
        2,
        [
            {"missing": "drop", "out_of_range": "cap"},
            {"missing": "drop", "out_of_range": "drop"},
            {"out_of_range": "impute", "unexpected_value": "drop", "exact_duplicates": "report"},
            {"out_of_range": "drop", "pattern_mismatch": "drop"},
            {"forbidden_missing": "drop", "unexpected_value": "drop", "out_of_range": "cap"},
        ],
    ),
    ids=lambda actions: "-".join(actions),
)
def test_every_action_on_single_rows_is_the_same(actions: dict[str, str], tmp_path: Path) -> None:
    table().write_parquet(tmp_path / "a.parquet")
    quality = Quality(actions=actions)  # type: ignore[arg-type]
    made = both(tmp_path, "a.parquet", SPLITS["stratified"], quality=quality, columns=COLUMNS)
    assert_same(made)
    (_, memory), (_, files) = made
    assert memory.done == files.done
    assert {one.kind for one in memory.done} == set(actions) - {"exact_duplicates"}


def test_an_action_that_needs_other_rows_is_not_passed_over(tmp_path: Path) -> None:
    table().write_parquet(tmp_path / "a.parquet")
    section = TableData(
        path="a.parquet",
        target="y",
        split=SPLITS["random"],
        missing_target="drop",
        quality=Quality(actions={"exact_duplicates": "drop"}),
        reading=Reading(cache="cache", rows_in="files"),
    )
    raw = read_table(section, tmp_path)
    with pytest.raises(AssertionError, match="the plan refuses"):
        prepare_table(raw, section, "classification", seed=3)


@pytest.mark.extended
@pytest.mark.parametrize(
    "sampling",
    [
        Balanced(kind="balanced"),
        Weighted(kind="weighted", column="id"),
        Mixture(kind="mixture", column="shop", temperature=3.0),
        Mixture(kind="mixture", column="part", weights={"train": 1, "test": 3, "validation": 5}),
        Curriculum(kind="curriculum", column="day_number", samples=3000),
        Curriculum(kind="curriculum", column="id", easiest="highest"),
        Blocks(kind="blocks", block_rows=50, mixed_blocks=4),
    ],
    ids=lambda one: f"{one.kind} {getattr(one, 'column', '')}",
)
def test_every_sampling_is_the_same(sampling: Sampling, tmp_path: Path) -> None:
    write_split_table(tmp_path)
    rows = pl.read_parquet(tmp_path / "a.parquet")
    days = rows["day"].dt.month().alias("day_number")
    rows.with_columns(days).write_parquet(tmp_path / "a.parquet")
    drawn = []
    for _, prepared in both(tmp_path, "a.parquet", SPLITS["random"]):
        section = TableData(path="a.parquet", target="y", sampling=sampling)
        draws = build_sampler(section, prepared, 3, len(prepared.train), 5)
        drawn.append(np.stack([draws.at(epoch, 0, draws.rows) for epoch in range(3)]))
    assert (drawn[0] == drawn[1]).all()
    assert len(np.unique(drawn[0])) > 1000


SCALINGS = [
    (kind, numeric)
    for kind in ("csv", "parts")
    for numeric in ("standard", "robust", "log", "quantile", "none")
]


@pytest.mark.extended
@pytest.mark.parametrize(("kind", "numeric"), each(2, SCALINGS))
def test_every_scaling_is_the_same(numeric: Scaling, kind: str, tmp_path: Path) -> None:
    name = "a.csv"
    if kind == "csv":
        table().write_csv(tmp_path / name)
    else:
        name = "parts"
        (tmp_path / name).mkdir()
        for at, rows in enumerate(table().iter_slices(1100)):
            rows.write_parquet(tmp_path / name / f"part-{at}.parquet")
    split = RandomSplit(kind="random")
    assert_same(both(tmp_path, name, split, numeric))
    assert_same(both(tmp_path, name, split, numeric, "regression", "size"))


def test_what_is_wrong_is_told_alike(tmp_path: Path) -> None:
    rows = table().with_columns(size=pl.col("size").cast(pl.String))
    strange = pl.when(pl.int_range(pl.len()).is_in([100, 4500])).then(pl.lit("big"))
    rows.with_columns(strange.otherwise(pl.col("size")).alias("size")).write_csv(tmp_path / "a.csv")
    said = []
    for rows_in in ("memory", "files"):
        reading = Reading(cache="cache", rows_in=rows_in)  # type: ignore[arg-type]
        columns = {"size": Column(kind="numeric")}
        section = TableData(
            path="a.csv", target="y", missing_target="drop", reading=reading, columns=columns
        )
        with pytest.raises(DataMistake, match="lines 102, 4502") as found:
            read_table(section, tmp_path)
        said.append(str(found.value))
    assert said[0] == said[1]


def test_dates_have_one_format_in_all_slices(tmp_path: Path) -> None:
    days = [datetime(2020, 1, 1) + timedelta(hours=at) for at in range(200)]
    pl.DataFrame({"when": days, "y": range(200)}).write_parquet(tmp_path / "a.parquet")
    # Only the last slice says which of the two numbers is the day.
    late = [datetime(2021, 3, min(12, 1 + at // 175)) for at in range(2100)]
    late += [datetime(2021, 3, 20)] * 200
    written = [day.strftime("%m/%d/%Y") for day in late]
    pl.DataFrame({"when": written, "y": range(2300)}).write_csv(tmp_path / "b.csv")
    data = TableData.model_validate({"path": "a.parquet", "val_path": "b.csv", "target": "y"})
    read = read_table(data, tmp_path).frames["validation"]["when"]
    assert read.dt.month().unique().to_list() == [3]
    assert read.dt.day().to_list() == [day.day for day in late]
