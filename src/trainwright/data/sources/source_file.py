"""What a source gives: rows in parts, the version of each, columns in folder names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Protocol, final
from urllib.parse import unquote

import numpy as np
import polars as pl

from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.files import Json, hash_value
from trainwright.data.base.inputs import Integers, PartName
from trainwright.data.base.messages import some

_NAMED = re.compile(r"([^=/\\?*\[]+)=([^=/\\?*\[]*)")
_MISSING = ("", "__HIVE_DEFAULT_PARTITION__")


@final
@dataclass(frozen=True, slots=True)
class SourcePart:
    """Rows that came in one piece: a file, the answer to a query, a frame.

    `written` is what people call it and holds no secret; `sha256` is of the content, so that equal
    hashes are equal rows; `lines` int64 [N] and `skipped` are as in `Parsed`; `file_sha256` is as
    in `FileVersion`.
    """

    written: str
    sha256: str
    size_bytes: int
    frame: pl.DataFrame
    lines: Integers
    skipped: tuple[int, ...] = ()
    file_sha256: str = ""


class Source(Protocol):
    """A place that rows come from.

    An implementation must give the same parts in the same order as long as the content is the
    same, a changed hash as soon as one value is another, and refuse with a `Mistake` that names the
    contract path what it cannot read whole. It writes nothing outside of the cache.
    """

    def parts(self) -> tuple[SourcePart, ...]:
        """The rows, in one or more parts with the same columns."""
        ...


@final
@dataclass(frozen=True, slots=True)
class FileVersion:
    """Version of one input. `path` is as written in the contract; `skipped` are the lines of
    unreadable records that were skipped. `sha256` is of the content; `file_sha256` is of the bytes
    of the file at `path`, to detect later changes, empty if the input is not a single file. `part`
    is the part of its rows before the split."""

    path: str
    sha256: str
    size_bytes: int
    rows: int
    skipped: tuple[int, ...] = ()
    file_sha256: str = ""
    part: PartName = "train"

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "path": self.path,
            "sha256": self.sha256,
            "size_bytes": self.size_bytes,
            "rows": self.rows,
            "part": self.part,
        } | ({"skipped_lines": list(self.skipped)} if self.skipped else {})


@final
@dataclass(frozen=True, slots=True)
class SourceFile:
    """Rows before any cleaning: those of text files with every column as string, others typed.

    `version` is of all of them; `lines` int64 [N] holds the line each row starts on and is empty
    for rows without lines. Rows that came in several parts have a version for each in `parts`.
    `kept` int64 [N] is the position in the file of each row of `frame`; empty: it holds them all.
    """

    frame: pl.DataFrame
    version: FileVersion
    lines: Integers
    parts: tuple[FileVersion, ...] = ()
    kept: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def positions(self, rows: Integers) -> Integers:
        """Positions in the file of rows of `frame`."""
        return self.kept[rows] if len(self.kept) else rows

    @property
    def files(self) -> tuple[FileVersion, ...]:
        """Every input that the rows came from."""
        return self.parts or (self.version,)

    def place(self, row: int = -1) -> Place:
        """Where a row (0-based) stands; without one, the file."""
        row = int(self.kept[row]) if 0 <= row < len(self.kept) else row
        known = 0 <= row < len(self.lines)
        line = int(self.lines[row]) if known else 0
        if row < 0 or not self.parts:
            return Place(self.version.path, line)
        ends = np.cumsum([part.rows for part in self.parts])
        at = min(int(np.searchsorted(ends, row, side="right")), len(ends) - 1)
        return Place(self.parts[at].path, line)

    def rows_text(self, rows: Integers, most: int = 5) -> str:
        """`lines 4, 7 and 3 more`, or `rows` counted from 1 where a file has no lines."""
        numbers = self.positions(rows[:most])
        word = "line" if len(self.lines) else "row"
        numbers = self.lines[numbers] if len(self.lines) else numbers + 1
        plural = "s" if len(rows) > 1 else ""
        return f"{word}{plural} {some([int(n) for n in numbers], most, len(rows))}"


def is_partition(name: str) -> bool:
    """Whether a folder is named for a column and its value."""
    return _NAMED.fullmatch(name) is not None


def partition_of(written: str) -> dict[str, str | None]:
    """The columns that the folders on the way to a file name, outermost first; None is a missing
    value. Bytes that no name of a folder may hold are written as in a URL: `%2F`."""
    named = written.partition("?")[0] if "://" in written else written
    found = [_NAMED.fullmatch(piece) for piece in PurePosixPath(named).parts[:-1]]
    return {
        unquote(match[1]): None if match[2] in _MISSING else unquote(match[2])
        for match in found
        if match is not None
    }


@final
@dataclass(frozen=True, slots=True)
class Partition:
    """The rows of a file with the `values` of its partition as columns of text, behind its own. The
    hash is of these, too. `path` is the contract path to blame."""

    source: Source
    values: Mapping[str, str | None]
    path: str

    def parts(self) -> tuple[SourcePart, ...]:
        """The rows of the source.

        Raises:
            DataMistake: as the source, or a column of the file has other values than its partition.
        """
        return tuple(self._with_values(part) for part in self.source.parts())

    def _with_values(self, part: SourcePart) -> SourcePart:
        frame = part.frame
        for name, value in self.values.items():
            if name in frame.columns:
                self._check(part, name, value)
        new = [
            pl.lit(value, dtype=pl.String).alias(name)
            for name, value in self.values.items()
            if name not in frame.columns
        ]
        sha256 = hash_value([part.sha256, list(self.values.items())])
        return replace(part, sha256=sha256, frame=frame.with_columns(new))

    def _check(self, part: SourcePart, name: str, value: str | None) -> None:
        """What stands in a file too is what its folder says."""
        column = part.frame[name]
        if column.dtype.is_temporal() or column.dtype == pl.Boolean:
            column = column.cast(pl.String)
        said = pl.Series([value], dtype=pl.String).cast(column.dtype, strict=False)
        equal = column.to_frame().select(pl.col(name).eq_missing(pl.lit(said)).all()).item()
        if equal and said.null_count() == int(value is None):
            return
        raise DataMistake(
            Problem(
                f"column {name!r} has other values than the folder of its file",
                path=self.path,
                found=f"{column.head(1).to_list()} in the file",
                expected=f"{value} in every row, as the folder {name}={value} says",
                fix="rename the folder, or take the column out of the file",
                place=Place(part.written),
            )
        )


def with_partition(source: Source, written: str, path: str) -> Source:
    """A file with the columns that its path names; the file itself if that names none."""
    values = partition_of(written)
    return Partition(source, values, path) if values else source
