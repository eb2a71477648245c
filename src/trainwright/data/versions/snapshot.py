"""Data versions: one hash, and a snapshot of column profiles and row hashes."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.split import FileSplit, RandomSplit, split_columns
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import (
    Json,
    damage_in,
    hash_bytes,
    hash_value,
    read_json,
    write_atomic,
    write_json,
)
from trainwright.data.base.counter_rng import GOLDEN, Words, mix
from trainwright.data.base.inputs import Integers, PartName
from trainwright.data.base.messages import AppliedAction
from trainwright.data.base.parse_cells import LAST_WHOLE, to_labels
from trainwright.data.base.typed_fields import check_annotated
from trainwright.data.columns.column_kinds import name_tokens
from trainwright.data.columns.target import Target
from trainwright.data.encoders.encoding import FrameEncoding
from trainwright.data.formats.parquet_sizes import read_parquet
from trainwright.data.read_table import RawTable
from trainwright.data.split.hidden_columns import without_hidden
from trainwright.data.statistics.profile import Profile, profile_column

_SCHEME = 1
_MISSING = np.uint64(0x6D697373696E6721)
PROFILE, ROWS = "profile.json", "rows.parquet"

MOST_ROWS = 10_000_000
"""Row limit for hashes; beyond it only columns are kept, since hashes take 16 bytes a row."""


def data_version(
    raw: RawTable,
    section: TableData,
    rows: Mapping[PartName, Integers],
    features: FrameEncoding,
    target: Target,
    done: Sequence[AppliedAction] = (),
) -> str:
    """SHA-256 over the content of the files, the columns, the cleaning, the split, the fitted
    features and what was done to the rows. Paths are excluded: a renamed file is the same data."""
    version = hash_value(
        {
            "scheme": _SCHEME,
            "files": [file.sha256 for file in raw.facts.files],
            "columns": [column.to_json() for column in raw.columns],
            "cleaning": raw.cleaning.to_json(),
            "missing_target": section.missing_target,
            "split": {
                part: hash_bytes(r.astype("<i8", copy=False).data) for part, r in rows.items()
            },
            "features": features.identity(),
            "target": target.identity(),
        }
    )
    if not done:
        return version
    return hash_value({"rows": version, "done": [one.to_json() for one in done]})


def hash_rows(frame: pl.DataFrame) -> Words:
    """A 64-bit hash of the cells of each row [N]. The order of the columns makes no difference,
    their names do.

    Cells are mixed by the SplitMix64 finaliser (Steele, Lea and Flood 2014, OOPSLA, section 5); the
    row hash of polars may change between versions.
    """
    total = np.zeros(frame.height, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for series in frame.get_columns():
            total += _mix(_cells(series) ^ _word(series.name))
        return _mix(total)


def _cells(series: pl.Series) -> Words:
    """A 64-bit word for each cell; equal numbers have equal words, whatever their type."""
    missing = series.is_null().to_numpy()
    if series.dtype.is_numeric():
        numbers = series.cast(pl.Float64).fill_null(0.0).to_numpy() + 0.0
        words = numbers.view(np.uint64)
        if series.dtype == pl.Int64:
            whole = series.fill_null(0).to_numpy().view(np.uint64)
            words = np.where(np.abs(numbers) > LAST_WHOLE, whole, words)
    elif series.dtype == pl.Datetime("us"):
        words = series.cast(pl.Int64).fill_null(0).to_numpy().view(np.uint64)
    else:
        labels = to_labels(series).fill_null("")
        different = labels.unique()
        table = pl.DataFrame({"label": different, "word": [int(_word(one)) for one in different]})
        found = (
            labels.alias("label")
            .to_frame()
            .join(
                table.with_columns(pl.col("word").cast(pl.UInt64)),
                on="label",
                how="left",
                maintain_order="left",
            )
        )
        words = found["word"].to_numpy()
    with np.errstate(over="ignore"):
        mixed = _mix(words)
    return np.where(missing, _MISSING, mixed)


def _mix(words: Words) -> Words:
    """One step of SplitMix64 from the state `words`."""
    return mix(words + GOLDEN)


def _word(text: str) -> np.uint64:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


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
