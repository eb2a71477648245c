"""Memory-mapped row files for numeric tables larger than memory. Needs torch.

Rows are contiguous, so random access costs one page rather than one per column. Written from
batches of any length, one in memory at a time.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import final

import numpy as np
import polars as pl
import torch
from torch import Tensor

from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.data.base.counter_rng import Positions

_MAGIC = b"trainwright rows 1\n"
_HEAD_BYTES = 4096
_GATHERED_ROWS = 32
_AROUND_BYTES = 2**16
"""Linux maps so much around a page that is read, if it is in memory."""
_NEAR_PAGES = 8
"""Pages that lie so near to each other are read in one go."""
_DTYPES = {"<f4": torch.float32, "<i8": torch.int64}

Columns = Sequence[str] | str
"""Columns side by side in one tensor [N, columns], or one that is a tensor [N] by itself."""


def parquet_batches(files: Iterable[Path], rows: int = 50_000) -> Iterator[pl.DataFrame]:
    """The rows of Parquet files in their order, `rows` at a time: read one after the other, so that
    no more is in memory than a batch and the row groups it lies in."""
    for file in files:
        height = pl.scan_parquet(file, glob=False).select(pl.len()).collect().item()
        for start in range(0, height, rows):
            yield pl.scan_parquet(file, glob=False).slice(start, rows).collect()


def write_row_file(batches: Iterable[pl.DataFrame], tensors: Sequence[Columns], file: Path) -> int:
    """Write the rows of all batches, and give how many there are. The file is whole or absent.

    `tensors` says which columns make each tensor of a row, float32 where one of them is a float,
    else int64.

    Raises:
        DataMistake: a column is missing, no number, has missing values, or is of floats in one
            batch and of integers in another.
    """
    unfinished = file.with_name(f".tmp-{file.name}")
    rows = 0
    fields: list[tuple[str, str, int]] = []
    try:
        with unfinished.open("wb") as out:
            for batch in batches:
                found = _fields(batch, tensors, rows)
                if not fields:
                    fields = found
                    out.write(_head(fields))
                if found != fields:
                    raise _other_types(batch, tensors, found, fields, rows)
                _record(batch, tensors, fields, rows).tofile(out)
                rows += batch.height
            out.flush()
            os.fsync(out.fileno())
        if not rows:
            raise DataMistake(Problem("there are no rows to write", place=Place(str(file))))
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)
    return rows


@final
class RowFile:
    """A store of the rows that `write_row_file` wrote; all columns that stand side by side are one
    tensor [B, columns]. Pages that were read are given back at once: the memory of the process does
    not grow with the file, and what the system keeps of it is shared."""

    def __init__(self, file: Path) -> None:
        with file.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
            size = os.fstat(stream.fileno()).st_size - _HEAD_BYTES
            self._fields = _read_head(head, file)
            self._record = np.dtype([_field(*one) for one in self._fields])
            if size <= 0 or size % self._record.itemsize:
                raise _not_whole(file, f"{size:,} bytes of rows, {self._record.itemsize} for each")
            self._map = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        # Rows that are drawn one by one have no neighbours worth reading.
        self._map.madvise(mmap.MADV_RANDOM)
        flat = np.frombuffer(self._map, np.uint8, size, _HEAD_BYTES)
        self._rows = flat.reshape(-1, self._record.itemsize)
        self.rows = len(self._rows)
        self.row_bytes = self._record.itemsize

    def take(self, epoch: int, rows: Positions) -> tuple[Tensor, ...]:  # noqa: ARG002
        """The tensors of the rows; the same in every epoch."""
        # In file order, for sequential reads.
        forwards = np.argsort(rows, kind="stable")
        self._read_ahead(rows[forwards])
        gathered = np.empty((len(rows), self.row_bytes), np.uint8)
        for start in range(0, len(rows), _GATHERED_ROWS):
            places = forwards[start : start + _GATHERED_ROWS]
            some = rows[places]
            gathered[places] = self._rows[some]
            self._give_back(int(some[0]), int(some[-1]))
        records = gathered.view(self._record)[:, 0]
        return tuple(
            torch.from_numpy(np.ascontiguousarray(records[name])) for name, _, _ in self._fields
        )

    def _give_back(self, first: int, last: int) -> None:
        """Hold no longer what was read from one row to another. What is given back of the whole
        file each time takes the longer the larger it is."""
        begin = (_HEAD_BYTES + first * self.row_bytes) // _AROUND_BYTES * _AROUND_BYTES
        end = -(-(_HEAD_BYTES + (last + 1) * self.row_bytes) // _AROUND_BYTES) * _AROUND_BYTES
        self._map.madvise(mmap.MADV_DONTNEED, begin, min(end, len(self._map)) - begin)

    def _read_ahead(self, rows: Positions) -> None:
        """Have the disk read at once what lies side by side, as the rows of a block do; `rows`
        ascend."""
        pages = (_HEAD_BYTES + rows * self.row_bytes) // mmap.PAGESIZE
        ends = np.flatnonzero(np.diff(pages) > _NEAR_PAGES)
        firsts, lasts = pages[np.append(0, ends + 1)], pages[np.append(ends, len(pages) - 1)]
        for at in np.flatnonzero(lasts - firsts >= _NEAR_PAGES):
            start, stop = int(firsts[at]) * mmap.PAGESIZE, int(lasts[at] + 1) * mmap.PAGESIZE
            self._map.madvise(mmap.MADV_WILLNEED, start, stop - start)


def _fields(
    batch: pl.DataFrame, tensors: Sequence[Columns], before: int
) -> list[tuple[str, str, int]]:
    """Name, dtype and columns (0: one by itself) of each tensor; `before` are the rows of earlier
    batches."""
    names = [name for columns in tensors for name in _names(columns)]
    problems = [
        Problem(
            f"there is no column {name!r} of numbers" + _from_row(before),
            found="no such column" if name not in batch.columns else str(batch[name].dtype),
            expected="a column of numbers",
            fix="encode it first, or leave it out",
        )
        for name in names
        if name not in batch.columns or not batch[name].dtype.is_numeric()
    ]
    if problems:
        raise DataMistake(problems)
    return [
        (
            str(at),
            "<f4" if any(batch[name].dtype.is_float() for name in _names(columns)) else "<i8",
            0 if isinstance(columns, str) else len(columns),
        )
        for at, columns in enumerate(tensors)
    ]


def _other_types(
    batch: pl.DataFrame,
    tensors: Sequence[Columns],
    found: list[tuple[str, str, int]],
    fields: list[tuple[str, str, int]],
    before: int,
) -> DataMistake:
    """The type of a tensor was written with its first rows, and no later row is rounded to it."""
    return DataMistake(
        Problem(
            f"the type of the numbers changes{_from_row(before)}",
            found=", ".join(f"{name!r} {batch[name].dtype}" for name in _names(columns)),
            expected="floats, as before" if was == "<f4" else "integers, as before",
            fix="cast the columns of every batch alike",
        )
        for columns, (_, now, _), (_, was, _) in zip(tensors, found, fields, strict=True)
        if now != was
    )


def _from_row(before: int) -> str:
    return f" from row {before:,} on" if before else ""


def _record(
    batch: pl.DataFrame, tensors: Sequence[Columns], fields: list[tuple[str, str, int]], before: int
) -> np.ndarray:
    records = np.empty(batch.height, np.dtype([_field(*one) for one in fields]))
    for columns, (field, dtype, width) in zip(tensors, fields, strict=True):
        for at, name in enumerate(_names(columns)):
            if batch[name].null_count():
                (row, *_) = batch[name].is_null().arg_true()
                raise DataMistake(
                    Problem(
                        f"column {name!r} has missing values",
                        found=f"the first in row {before + row:,}",
                        fix="fill them, or leave these rows out",
                    )
                )
            values = batch[name].to_numpy().astype(dtype)
            if width:
                records[field][:, at] = values
            else:
                records[field] = values
    return records


def _names(columns: Columns) -> Sequence[str]:
    return (columns,) if isinstance(columns, str) else columns


def _field(name: str, dtype: str, width: int) -> tuple[str, str] | tuple[str, str, tuple[int]]:
    return (name, dtype, (width,)) if width else (name, dtype)


def _head(fields: list[tuple[str, str, int]]) -> bytes:
    head = _MAGIC + json.dumps(fields).encode()
    assert len(head) < _HEAD_BYTES
    return head.ljust(_HEAD_BYTES, b"\n")


def _read_head(head: bytes, file: Path) -> list[tuple[str, str, int]]:
    if not head.startswith(_MAGIC) or len(head) < _HEAD_BYTES:
        raise _not_whole(file, "it does not begin as one")
    try:
        fields = [(str(n), str(d), int(w)) for n, d, w in json.loads(head[len(_MAGIC) :])]
    except (ValueError, TypeError):
        raise _not_whole(file, "its head cannot be read") from None
    if not fields or any(d not in _DTYPES or not 0 <= w < 2**20 for _, d, w in fields):
        raise _not_whole(file, "its head names no tensors")
    return fields


def _not_whole(file: Path, why: str) -> DataMistake:
    return DataMistake(
        Problem(
            f"the file is not a whole row file: {why}",
            fix="write it again from its source",
            place=Place(str(file)),
        )
    )
