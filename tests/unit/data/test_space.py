"""Rows in files are the rows in memory, to the last bit; and the disk has its room back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from trainwright.contract.data import (
    GroupSplit,
    RandomSplit,
    Split,
    StratifiedGroupSplit,
    StratifiedSplit,
    TableData,
    TimeSplit,
)
from trainwright.contract.features import Features, Scaling
from trainwright.contract.sources import Reading
from trainwright.core.errors import DataMistake
from trainwright.data import space as space_module
from trainwright.data.cells import Cells
from trainwright.data.drawn_parts import draw_parts
from trainwright.data.prepare import prepare_table
from trainwright.data.prepared import Prepared
from trainwright.data.reading import RawTable, read_table
from trainwright.data.row_keys import random_keys
from trainwright.data.space import IN_MEMORY, InFiles, positions, spread_rows, taken
from trainwright.data.table import Integers

ROWS = 5000
SPLITS: tuple[Split, ...] = (
    RandomSplit(kind="random"),
    StratifiedSplit(kind="stratified"),
    GroupSplit(kind="group", column="shop"),
    StratifiedGroupSplit(kind="stratified_group", column="shop"),
    TimeSplit(kind="time", column="day", gap=2.0),
)


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
) -> list[tuple[RawTable, Prepared]]:
    """The data prepared in memory, and in files."""
    made = []
    for rows_in in ("memory", "files"):
        section = TableData(
            path=name,
            target=target,
            split=split,
            missing_target="drop",
            features=Features(numeric=numeric, impute="median"),
            reading=Reading(cache="cache", rows_in=rows_in),  # type: ignore[arg-type]
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


@pytest.mark.parametrize("split", SPLITS, ids=lambda split: split.kind)
def test_every_split_is_the_same(split: Split, tmp_path: Path) -> None:
    table().write_parquet(tmp_path / "a.parquet")
    assert_same(both(tmp_path, "a.parquet", split))


@pytest.mark.parametrize("numeric", ["standard", "robust", "log", "quantile", "none"])
@pytest.mark.parametrize("kind", ["csv", "parts"])
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
        section = TableData(path="a.csv", target="y", missing_target="drop", reading=reading)
        with pytest.raises(DataMistake, match="lines 102, 4502") as found:
            read_table(section, tmp_path)
        said.append(str(found.value))
    assert said[0] == said[1]


def test_nothing_stays_on_the_disk(tmp_path: Path) -> None:
    space = InFiles(tmp_path / "scratch")
    frame = pl.DataFrame({"a": range(2000), "b": ["x", None] * 1000})
    chosen = positions(frame["a"].to_numpy() % 3 == 0, space)
    assert chosen.tolist() == list(range(0, 2000, 3))
    assert space.frame(taken(frame, chosen)).equals(IN_MEMORY.frame(taken(frame, chosen)))
    assert space.frame([frame.head(0)]).equals(frame.head(0))
    assert space.array((0, 3), np.int64).shape == (0, 3)
    assert not list((tmp_path / "scratch").iterdir())


@pytest.mark.parametrize(
    "values",
    [
        [0.0, -0.0, 1.5, None] * 900,
        [f"word {i % 1300}" for i in range(3000)],
        [None] * 800,
        list(range(1000, 3800)),
    ],
    ids=["zeros", "words", "none", "all"],
)
def test_different_values_are_counted_exactly(
    values: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainwright.data.cells._MOST_HELD", 100)
    series = pl.Series("a", values)
    cells = Cells(series, space=InFiles(tmp_path))
    assert cells.distinct == series.drop_nulls().n_unique()
    assert (len(cells), cells.missing) == (len(series), series.null_count())


def test_parts_are_drawn_by_the_order_of_keys(tmp_path: Path) -> None:
    labels = np.random.default_rng(2).integers(0, 3, 3000)
    sizes, wanted = np.bincount(labels).tolist(), [(100, 50), (0, 700), (3, 0)]
    expected = np.zeros(3000, dtype=np.int64)
    for code, (validation, test) in enumerate(wanted):
        rows = np.flatnonzero(labels == code)
        order = rows[np.argsort(random_keys(3000, 5, "split")[rows])]
        expected[order[:validation]] = 1
        expected[order[validation : validation + test]] = 2

    def codes() -> Iterator[Integers]:
        return (labels[start : start + 700] for start in range(0, 3000, 700))

    for space in (IN_MEMORY, InFiles(tmp_path)):
        assert (draw_parts(codes, sizes, wanted, 5, space) == expected).all()


@pytest.mark.parametrize("rows", [0, 1, 7, 100, 101, 150, 201, 1000])
def test_as_many_rows_are_spread_as_are_asked_for(rows: int) -> None:
    chosen = spread_rows(rows, 100)
    assert len(chosen) == min(rows, 100)
    assert len(set(chosen.tolist())) == len(chosen)
    assert (chosen < rows).all()


def test_dates_have_one_format_in_all_slices(tmp_path: Path) -> None:
    days = [datetime(2020, 1, 1) + timedelta(hours=at) for at in range(200)]
    pl.DataFrame({"when": days, "y": range(200)}).write_parquet(tmp_path / "a.parquet")
    # Only the last slice says which of the two numbers is the day.
    late = [datetime(2021, 3, min(12, 1 + at // 5500)) for at in range(66_000)]
    late += [datetime(2021, 3, 20)] * 4000
    written = [day.strftime("%m/%d/%Y") for day in late]
    pl.DataFrame({"when": written, "y": range(70_000)}).write_csv(tmp_path / "b.csv")
    data = TableData.model_validate({"path": "a.parquet", "val_path": "b.csv", "target": "y"})
    read = read_table(data, tmp_path).frames["validation"]["when"]
    assert read.dt.month().unique().to_list() == [3]
    assert read.dt.day().to_list() == [day.day for day in late]
