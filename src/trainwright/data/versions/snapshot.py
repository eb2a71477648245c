"""Snapshot of a data version: column profiles and row hashes for comparison."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.split import FileSplit, RandomSplit, split_columns
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json, damage_in, read_json, write_atomic, write_json
from trainwright.data.base.permutation import Words
from trainwright.data.base.typed_fields import check_annotated
from trainwright.data.columns.column_kinds import name_tokens
from trainwright.data.formats.parquet_sizes import read_parquet
from trainwright.data.read_table import RawTable
from trainwright.data.split.hidden_columns import without_hidden
from trainwright.data.statistics.profile import Profile, profile_column
from trainwright.data.versions.row_hash import hash_rows

PROFILE, ROWS = "profile.json", "rows.parquet"
MOST_ROWS = 10_000_000
"""Row limit for hashes; beyond it only columns are kept, since hashes take 16 bytes a row."""


@final
@dataclass(frozen=True, slots=True)
class DataSnapshot:
    """Column profiles of N rows, row hashes [N], and key hashes if `key` names a unique column.
    `target` is empty if unknown. `rows` is N, even without hashes."""

    name: str
    rows: int
    columns: tuple[Profile, ...]
    target: str
    hashes: Words
    key: str
    keys: Words

    def write(self, folder: Path) -> None:
        """Write two files to a folder.

        Raises:
            StorageFailed: the disk.
        """
        about: Json = {
            "rows": self.rows,
            "target": self.target,
            "key": self.key,
            "columns": [column.to_json() for column in self.columns],
        }
        columns = {"row": self.hashes} | ({"key": self.keys} if self.key else {})
        packed = io.BytesIO()
        pl.DataFrame(columns).write_parquet(packed)
        write_atomic(folder / ROWS, packed.getvalue())
        write_json(folder / PROFILE, about)


def read_snapshot(folder: Path, name: str) -> DataSnapshot:
    """Read the files of `write`.

    Raises:
        Mistake: there is no snapshot.
    """
    if not (folder / PROFILE).is_file():
        raise Mistake(
            Problem(
                f"run {name} has kept nothing of the rows of its data",
                found=f"no {PROFILE} in {folder}",
                expected="a run on a table, by this version",
                fix="give the data file in its place",
            )
        )
    nothing = np.empty(0, dtype=np.uint64)
    with damage_in(folder / PROFILE):
        about, rows = read_json(folder / PROFILE), read_parquet(folder / ROWS)
        found = DataSnapshot(
            name,
            about["rows"],
            tuple(Profile.from_json(one) for one in about["columns"]),
            about["target"],
            rows["row"].to_numpy() if "row" in rows.columns else nothing,
            about["key"],
            rows["key"].to_numpy() if "key" in rows.columns else nothing,
        )
        check_annotated(found, PROFILE)
    return found


def take_snapshot(
    frames: Sequence[pl.DataFrame], name: str, target: str = "", key: str = ""
) -> DataSnapshot:
    """Snapshot of typed rows. The default key is the first unique column with id in its name."""
    frame = pl.concat([without_hidden(one) for one in frames], how="diagonal_relaxed")
    key = key or _find_key(frame, target)
    kept = frame.height <= MOST_ROWS
    nothing = np.empty(0, dtype=np.uint64)
    return DataSnapshot(
        name,
        frame.height,
        tuple(profile_column(series) for series in frame.get_columns()),
        target,
        hash_rows(frame) if kept else nothing,
        key,
        hash_rows(frame.select(key)) if key and kept else nothing,
    )


def snapshot_of_run(raw: RawTable, section: TableData, name: str) -> DataSnapshot:
    """Snapshot of the rows of a contract."""
    split = section.split
    named = [column for _, column in split_columns(split)]
    key = named[0] if named and isinstance(split, RandomSplit | FileSplit) else ""
    frames = list(raw.frames.values())
    if key and sum(frame[key].n_unique() for frame in frames) < sum(map(len, frames)):
        key = ""
    return take_snapshot(frames, name, section.target_columns[0], key)


def _find_key(frame: pl.DataFrame, target: str) -> str:
    for series in frame.get_columns():
        says_id = bool(name_tokens(series.name) & {"id", "key", "uuid", "rownames"})
        whole = series.name != target and not series.null_count()
        if says_id and whole and series.n_unique() == len(series):
            return series.name
    return ""
