"""Files that a run has read are held against what was read; a file that was touched is the same."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from made_data import make_images, saved_dataset
from made_pictures import write_folder, write_shards, write_table
from trainwright.contract.sections.data.data import Data
from trainwright.contract.sections.data.images import Decoding, ImageData, ImageFields
from trainwright.contract.sections.data.table_data import TableData
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.data.dispatch import read_data
from trainwright.data.sources.local_files import FilesRead

ROWS = pl.DataFrame({"a": [3, 1, 4, 1, 5] * 4, "y": [0, 1] * 10})
LABELS = {"y": {"names": ["no", "yes"], "_type": "ClassLabel"}}


def images(path: str, **fields: str) -> ImageData:
    return ImageData(
        kind="images",
        path=path,
        fields=ImageFields(**fields),
        decoding=Decoding(size=(12, 12), cache="off"),
    )


def table(path: str, folder: Path) -> TableData:
    frame = ROWS.with_columns(y=pl.col("y").replace_strict([0, 1], ["no", "yes"]))
    match path.partition(".")[2]:
        case "csv":
            frame.write_csv(folder / path)
        case "csv.gz":
            (folder / path).write_bytes(gzip.compress(frame.write_csv().encode()))
        case "parquet":
            frame.write_parquet(folder / path)
        case _:
            saved_dataset(folder / path, ROWS, features=LABELS)
    return TableData(path=path, target="y")


def text(folder: Path) -> TokenData:
    (folder / "a.txt").write_text("many words and some more\n" * 400)
    return TokenData(kind="tokens", path="a.txt")


def made(
    write: Callable[[Path], object], data: ImageData, folder: Path, name: str = "pets"
) -> ImageData:
    write(folder / name)
    return data


KINDS: dict[str, Callable[[Path], Data]] = {
    "csv": lambda at: table("rows.csv", at),
    "packed": lambda at: table("rows.csv.gz", at),
    "parquet": lambda at: table("rows.parquet", at),
    "saved": lambda at: table("saved", at),
    "text": text,
    "idx": lambda at: made(make_images, ImageData(kind="images", path="pets"), at),
    "tar": lambda at: made(write_shards, images("pets/part-0.tar"), at),
    "folder": lambda at: made(write_folder, images("pets"), at),
    "named": lambda at: made(write_table, images("pets/table.csv"), at),
}
WATCHED = ("csv", "packed", "parquet", "saved", "text", "idx")


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def read(kind: str, folder: Path) -> FilesRead:
    data = KINDS[kind](folder)
    return FilesRead(read_data(data, folder).facts.files, folder, time.time_ns())


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_were_only_touched_are_the_same(kind: str, tmp_path: Path) -> None:
    found = read(kind, tmp_path)
    assert found.changed() == ()
    for file in files_of(tmp_path):
        file.write_bytes(file.read_bytes())
        os.utime(file, ns=(1, time.time_ns() + 10**9))
    assert found.changed() == ()


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("kind", WATCHED)
def test_files_whose_content_is_another_are_named(kind: str, gone: bool, tmp_path: Path) -> None:
    found = read(kind, tmp_path)
    largest = max(files_of(tmp_path), key=lambda file: file.stat().st_size)
    if gone:
        largest.unlink()
    else:
        largest.write_bytes(largest.read_bytes() + b"\0")
    assert found.changed() == (largest.relative_to(tmp_path).as_posix(),)
