"""A split that a file of its own says: read, and found again in the rows of the data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

import polars as pl

from trainwright.contract.data import FileSplit, Split
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.data.sources import FileVersion, read_source
from trainwright.data.values import to_labels
from trainwright.data.wording import quoted, some

PART_COLUMN = "\x00part"
"""The column of the training frame that holds what the file says; no file can have one of it."""

_PART, _ROW = "part", "row"


@final
@dataclass(frozen=True, slots=True)
class WrittenSplit:
    """What the file says: the part of each key, both as text. `files` is empty where the split is
    not written in a file; `key` is empty where rows are found by their place."""

    key: str
    parts: pl.DataFrame
    files: tuple[FileVersion, ...]


NOT_WRITTEN = WrittenSplit("", pl.DataFrame({"key": [], "part": []}), ())


def read_split_file(split: Split, folder: Path) -> WrittenSplit:
    """Read the file that a split names, relative to `folder`.

    Raises:
        DataMistake: it cannot be read, lacks a column, or names a row twice.
    """
    if not isinstance(split, FileSplit):
        return NOT_WRITTEN
    source = read_source(split.path, folder, "data.split.path")
    key = split.key or _ROW
    lacking = [name for name in (key, _PART) if name not in source.frame.columns]
    if lacking:
        raise DataMistake(
            Problem(
                "the file of the split lacks columns",
                path="data.split.path",
                found=f"no {quoted(lacking)} among {some(source.frame.columns, 8)}",
                expected=f"the columns {key!r} and {_PART!r}",
                fix="write them, or name the key in data.split.key",
                place=Place(split.path),
            )
        )
    keys, parts = (_text(source.frame[name]) for name in (key, _PART))
    table = pl.DataFrame({"key": keys, "part": parts})
    twice = table["key"].filter(table["key"].is_duplicated() | table["key"].is_null())
    if len(twice):
        raise DataMistake(
            Problem(
                f"the file of the split does not name each row once: {len(twice)} lines",
                path="data.split.path",
                found=quoted(str(one) for one in twice.unique(maintain_order=True).to_list()),
                expected="each key on one line",
                fix="remove the lines that are too many",
                place=Place(split.path),
            )
        )
    return WrittenSplit(split.key, table, (source.version,))


def with_parts(frame: pl.DataFrame, cells: pl.DataFrame, written: WrittenSplit) -> pl.DataFrame:
    """`frame` with what the file says of each of its rows, in `PART_COLUMN`. `cells` are the same
    rows cleaned, with the key.

    Raises:
        DataMistake: rows that the file does not name, and keys that no row has.
    """
    if not written.files:
        return frame
    if written.key:
        keys = to_labels(cells[written.key])
    else:
        keys = pl.Series(range(frame.height), dtype=pl.Int64).cast(pl.String)
    found = pl.DataFrame({"key": keys}).join(
        written.parts, on="key", how="left", maintain_order="left"
    )["part"]
    place = Place(written.files[0].path)
    problems: list[Problem] = []
    if found.null_count():
        unnamed = keys.filter(found.is_null())
        problems.append(
            Problem(
                f"the file of the split does not name {len(unnamed):,} rows of the data",
                path="data.split.path",
                found=quoted(str(one) for one in unnamed.head(5).to_list()),
                expected="a line for every row",
                fix="add the lines",
                place=place,
            )
        )
    strange = written.parts["key"].filter(~written.parts["key"].is_in(keys.drop_nulls().to_list()))
    if len(strange):
        problems.append(
            Problem(
                f"the file of the split names {len(strange):,} rows that the data does not have",
                path="data.split.path",
                found=quoted(strange.head(5).to_list()),
                expected="only rows of the data",
                fix="remove the lines, or look whether the data is the one that was divided",
                place=place,
            )
        )
    if problems:
        raise DataMistake(problems)
    return frame.with_columns(found.alias(PART_COLUMN))


def _text(series: pl.Series) -> pl.Series:
    text = to_labels(series).str.strip_chars()
    return text.set(text == "", None)
