"""What a source gives: rows in parts, with the version of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
import polars as pl

from trainwright.core.errors import Place
from trainwright.core.files import Json
from trainwright.data.base.messages import some
from trainwright.data.base.table import Integers, PartName


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
    """

    frame: pl.DataFrame
    version: FileVersion
    lines: Integers
    parts: tuple[FileVersion, ...] = ()

    @property
    def files(self) -> tuple[FileVersion, ...]:
        """Every input that the rows came from."""
        return self.parts or (self.version,)

    def place(self, row: int = -1) -> Place:
        """Where a row (0-based) stands; without one, the file."""
        known = 0 <= row < len(self.lines)
        line = int(self.lines[row]) if known else 0
        if row < 0 or not self.parts:
            return Place(self.version.path, line)
        ends = np.cumsum([part.rows for part in self.parts])
        at = min(int(np.searchsorted(ends, row, side="right")), len(ends) - 1)
        return Place(self.parts[at].path, line)

    def rows_text(self, rows: Integers, most: int = 5) -> str:
        """`lines 4, 7 and 3 more`, or `rows` counted from 1 where a file has no lines."""
        if len(self.lines):
            word, numbers = "line", self.lines[rows[:most]]
        else:
            word, numbers = "row", rows[:most] + 1
        plural = "s" if len(rows) > 1 else ""
        return f"{word}{plural} {some([int(n) for n in numbers], most, len(rows))}"
