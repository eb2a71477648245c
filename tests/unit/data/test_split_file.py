"""A split that a file of its own says: found again by place or key, and told what is wrong."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from trainwright.contract.sections.data.split import FileSplit
from trainwright.contract.sections.data.table_data import Features, TableData
from trainwright.core.errors import DataMistake
from trainwright.data.base import row_storage
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table

ROWS = 600
FRAME = pl.DataFrame(
    {
        "x": np.random.default_rng(3).normal(size=ROWS),
        "id": [f"id{i}" for i in range(ROWS)],
        "y": ["rare" if i % 10 == 0 else "common" for i in range(ROWS)],
    }
)


def section(split: FileSplit, name: str = "a.csv") -> TableData:
    features = Features(numeric="none", impute="median")
    return TableData(path=name, target="y", split=split, features=features)


def test_a_file_says_the_parts(tmp_path: Path) -> None:
    FRAME.write_csv(tmp_path / "a.csv")
    wanted = ["train", "validation", "test", "train"] * 150
    written = pl.DataFrame({"id": FRAME["id"], "part": wanted})
    written.sample(fraction=1.0, shuffle=True, seed=0).write_csv(tmp_path / "s.csv")
    data = section(FileSplit(kind="file", path="s.csv", key="id"))
    raw = read_table(data, tmp_path)
    assert [file.path for file in raw.facts.files] == ["a.csv", "s.csv"]
    prepared = prepare_table(raw, data, "classification", 0)
    assert prepared.test.rows.tolist() == list(range(2, ROWS, 4))
    assert "id" not in [column.name for column in prepared.table.columns]
    assert "\uffffpart" not in prepared.train.frame.columns
    written.select(pl.int_range(ROWS).alias("row"), "part").write_csv(tmp_path / "s.csv")
    data = section(FileSplit(kind="file", path="s.csv"))
    again = prepare_table(read_table(data, tmp_path), data, "classification", 0)
    assert again.validation.rows.tolist() == list(range(1, ROWS, 4))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["id,side", "id0,train"], "lacks columns"),
        (["id,part", "id0,train", "id0,test"], "missing or repeated keys: 2 lines"),
        (["id,part", "id0,train", ",test"], "missing or repeated keys: 1 line\n"),
        (["id,part", *(f"id{i},train" for i in range(ROWS - 2))], "lacks 2 rows"),
        (["id,part", *(f"id{i},train" for i in range(ROWS + 1))], "names 1 row that the data"),
        (["id,part", *(f"id{i},tests" for i in range(ROWS))], "names no part"),
        (["id,part"], "lacks 600 rows"),
    ],
)
def test_what_is_wrong_with_a_split_file(tmp_path: Path, lines: list[str], message: str) -> None:
    FRAME.write_csv(tmp_path / "a.csv")
    (tmp_path / "s.csv").write_text("\n".join(lines) + "\n")
    data = section(FileSplit(kind="file", path="s.csv", key="id"))
    with pytest.raises(DataMistake, match=message) as caught:
        prepare_table(read_table(data, tmp_path), data, "classification", 0)
    assert caught.value.problems[0].path == "data.split.path"


def test_of_many_wrong_keys_the_first_five_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_storage, "SLICE_ROWS", 3)
    FRAME.head(60).write_csv(tmp_path / "a.csv")
    names = [f"{'id' if row < 40 else 'no'}{row}" for row in range(60)]
    parts = pl.DataFrame({"id": names, "part": ["train"] * 60})
    parts.write_csv(tmp_path / "s.csv")
    with pytest.raises(DataMistake) as caught:
        read_table(section(FileSplit(kind="file", path="s.csv", key="id")), tmp_path)
    absent, strange = caught.value.problems
    assert "20 rows" in absent.message
    told = [", ".join(repr(f"{a}{row}") for row in range(40, 45)) for a in ("id", "no")]
    assert absent.found == f"{told[0]} and others"
    assert "20 rows" in strange.message
    assert strange.found == f"{told[1]} and others"


def test_a_key_that_no_column_has_is_refused(tmp_path: Path) -> None:
    FRAME.write_csv(tmp_path / "a.csv")
    FRAME.select(pl.col("id").alias("*"), part=pl.lit("train")).write_csv(tmp_path / "s.csv")
    data = section(FileSplit(kind="file", path="s.csv", key="*"))
    with pytest.raises(DataMistake) as caught:
        read_table(data, tmp_path)
    assert caught.value.problems[0].path == "data.split.key"


@pytest.mark.parametrize("data", ["csv", "parquet"])
@pytest.mark.parametrize("lines", ["csv", "parquet"])
@pytest.mark.parametrize("hours", [24, 7])
def test_times_are_keys_in_files_of_every_kind(
    data: str, lines: str, hours: int, tmp_path: Path
) -> None:
    times = [datetime(2020, 1, 1) + timedelta(hours=hours * at) for at in range(ROWS)]
    if hours == 24:
        times = [time.date() for time in times]
    frame = FRAME.with_columns(when=pl.Series(times))
    parts = frame.select("when", part=pl.Series(["test", "validation", *["train"] * 10] * 50))
    written = [(frame, f"a.{data}"), (parts, f"s.{lines}")]
    for rows, name in written:
        if name.endswith("csv"):
            rows.write_csv(tmp_path / name, datetime_format="%Y-%m-%d %H:%M:%S")
        else:
            rows.write_parquet(tmp_path / name)
    chosen = section(FileSplit(kind="file", path=f"s.{lines}", key="when"), f"a.{data}")
    prepared = prepare_table(read_table(chosen, tmp_path), chosen, "classification", 0)
    assert prepared.test.rows.tolist() == list(range(0, ROWS, 12))


def test_keys_are_cleaned_before_they_are_compared(tmp_path: Path) -> None:
    FRAME.with_columns(id=pl.int_range(ROWS)).write_csv(tmp_path / "a.csv")
    parts = ["test", " validation ", *["train"] * 10] * 50
    lines = [f" {at}.0 ,{part}" for at, part in enumerate(parts)]
    (tmp_path / "s.csv").write_text("\n".join(["id,part", *lines]) + "\n")
    data = section(FileSplit(kind="file", path="s.csv", key="id"))
    prepared = prepare_table(read_table(data, tmp_path), data, "classification", 0)
    assert prepared.test.rows.tolist() == list(range(0, ROWS, 12))
