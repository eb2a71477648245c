"""Hive partitions: columns in folder names, such as `year=2024/month=01/part.parquet`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import final
from urllib.parse import unquote

import polars as pl

from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.hashing import hash_value
from trainwright.data.sources.source_file import Source, SourcePart

_NAMED = re.compile(r"([^=/\\?*\[]+)=([^=/\\?*\[]*)")
_MISSING = ("", "__HIVE_DEFAULT_PARTITION__")


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
