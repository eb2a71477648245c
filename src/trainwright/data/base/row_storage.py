"""Row storage during preparation and training, in memory or in memory-mapped files; sorting beyond
memory.

Memory and files are processed in the same chunks by the same code, so that no bit depends on the
storage. Files are unlinked: the disk space is freed when the process ends, however it ends. Mapped
pages count as memory of the process until `release_pages` gives them back.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, assert_never, final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.sections.data.sources import Reading
from trainwright.core.files import storage_errors
from trainwright.core.formatting import show_bytes
from trainwright.core.process import memory_bytes
from trainwright.data.base.inputs import Integers

_MAPPED: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()

SLICE_ROWS = 65_536
"""Chunk size in rows. Sums over rows are accumulated by chunk, so another size gives other bits."""

_NUMBER_BYTES = 8

_COPIES = 10
"""Peak memory of the preparation over the size of the table's numbers."""

Array = npt.NDArray[Any]
Chosen = Callable[[int, int], npt.NDArray[np.bool_]]
Rows = TypeVar("Rows", pl.DataFrame, pl.Series)


def map_to_read(file: Path) -> mmap.mmap:
    """Bytes of a non-empty file that is not written to."""
    with file.open("rb") as stream:
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    _MAPPED.add(mapped)
    return mapped


def release_pages() -> None:
    """Give back the pages of all files that are mapped; those looked at again come back from the
    system's cache."""
    for mapped in tuple(_MAPPED):
        mapped.madvise(mmap.MADV_DONTNEED)


class Placing(NamedTuple):
    """Storage of the rows of a table, and the reason."""

    rows_in: Literal["memory", "files"]
    reason: str


IS_SMALL = Placing("memory", "few rows")


def place_rows(reading: Reading, rows: int, columns: int) -> Placing:
    """Choose the storage by the contract or the machine's memory."""
    needed, there = rows * columns * _NUMBER_BYTES * _COPIES, memory_bytes()
    said = (
        f"{rows:,} rows of {columns} columns take up to {show_bytes(needed)} while they are "
        f"prepared, of {show_bytes(there)}"
    )
    match reading.rows_in:
        case "auto":
            return Placing("files" if needed > there else "memory", said)
        case "memory" | "files":
            return Placing(reading.rows_in, said)
        case _:
            assert_never(reading.rows_in)


class RowStorage(Protocol):
    """Allocator of arrays and frames.

    An implementation must return the same bits wherever it keeps them.
    """

    def array(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        """An uninitialised array."""
        ...

    def frame(self, slices: Iterable[pl.DataFrame]) -> pl.DataFrame:
        """One or more chunks of rows as one frame."""
        ...


@final
class InMemory:
    """Everything in memory."""

    def array(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        """An array in memory."""
        return np.empty(shape, dtype)

    def frame(self, slices: Iterable[pl.DataFrame]) -> pl.DataFrame:
        """A frame in memory."""
        listed = list(slices)
        return listed[0] if len(listed) == 1 else pl.concat(listed, rechunk=True)


IN_MEMORY = InMemory()


@final
class InFiles:
    """Memory-mapped unlinked files on the disk of `folder`, paged on access and shared with forked
    processes.

    Raises:
        StorageFailed: the disk is full.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def array(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        """An array in a file of its own."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if not size:
            return np.empty(shape, dtype)
        with storage_errors(f"rows in {self.folder}"), self._file() as file:
            # Else a disk that is full would only be noticed by a signal that ends the process.
            os.posix_fallocate(file.fileno(), 0, size)
            flat = np.frombuffer(mmap.mmap(file.fileno(), size), dtype)
        return flat.reshape(shape)

    def frame(self, slices: Iterable[pl.DataFrame]) -> pl.DataFrame:
        """A frame of an Arrow file."""
        import pyarrow

        with storage_errors(f"rows in {self.folder}"), self._file() as file:
            blocks = _blocks(slices)
            first = _to_arrow(next(blocks))
            with pyarrow.ipc.new_file(file, first.schema) as writer:
                writer.write_table(first)
                for block in blocks:
                    writer.write_table(_to_arrow(block))
            file.flush()
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        table = pyarrow.ipc.open_file(pyarrow.py_buffer(mapped)).read_all()
        frame = pl.from_arrow(table, rechunk=False)
        assert isinstance(frame, pl.DataFrame)
        return frame

    def _file(self) -> Any:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=self.folder)


def _to_arrow(block: pl.DataFrame) -> Any:
    # As polars holds it: what an older format holds would be copied into memory when it is read.
    return block.to_arrow(compat_level=pl.CompatLevel.newest())


def slices_of(rows: Rows) -> Iterator[Rows]:
    """The rows a slice at a time; of no rows one slice."""
    for start, stop in bounds(len(rows)):
        yield rows.slice(start, stop - start)


def bounds(rows: int) -> Iterator[tuple[int, int]]:
    """Where slices of so many rows begin and end; of no rows one."""
    for start in range(0, max(1, rows), SLICE_ROWS):
        yield start, min(rows, start + SLICE_ROWS)


def is_one_slice(rows: int) -> bool:
    """Whether so many rows are not divided."""
    return rows <= SLICE_ROWS


def taken(frame: pl.DataFrame, rows: Integers) -> Iterator[pl.DataFrame]:
    """The given rows, which ascend, as they lie in the slices of the frame."""
    for start, stop in bounds(frame.height):
        low, high = np.searchsorted(rows, (start, stop))
        if high > low or not start:
            yield frame.slice(start, stop - start)[rows[low:high] - start]


def chosen_positions(rows: int, chosen: Chosen, space: RowStorage) -> Integers:
    """Which of so many rows are chosen, int64: `chosen` says it of the rows of a slice."""
    count = sum(int(np.count_nonzero(chosen(start, stop))) for start, stop in bounds(rows))
    found = space.array((count,), np.int64)
    filled = 0
    for start, stop in bounds(rows):
        here = np.flatnonzero(chosen(start, stop))
        found[filled : filled + len(here)] = here + start
        filled += len(here)
    return found


def positions_of_code(code: int | bool, codes: Array, space: RowStorage) -> Integers:
    """Where this code stands in `codes` [N], int64."""
    return chosen_positions(len(codes), lambda start, stop: codes[start:stop] == code, space)


def row_numbers(rows: int, space: RowStorage) -> Integers:
    """The numbers of so many rows, from 0 on, int64 [N]."""
    numbers = space.array((rows,), np.int64)
    for start, stop in bounds(rows):
        numbers[start:stop] = np.arange(start, stop)
    return numbers


def gathered(values: Array, rows: Integers, space: RowStorage) -> Array:
    """The values [N] at these rows."""
    found = space.array((len(rows),), values.dtype)
    for start, stop in bounds(len(rows)):
        found[start:stop] = values[rows[start:stop]]
    return found


def stored(values: Array, space: RowStorage) -> Array:
    """The same array, lying in this space."""
    found = space.array(values.shape, values.dtype)
    for start, stop in bounds(len(values)):
        found[start:stop] = values[start:stop]
    return found


def spread_rows(rows: int, most: int) -> Integers:
    """So many of the rows, or all if there are fewer, at equal distances."""
    count = min(rows, most)
    return np.arange(count) * rows // max(1, count)


def _blocks(slices: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Small slices put together, as a file of many blocks is slow to look at."""
    waiting: list[pl.DataFrame] = []
    rows = 0
    first = True
    for one in slices:
        waiting.append(one)
        rows += one.height
        if rows >= SLICE_ROWS:
            yield pl.concat(waiting, rechunk=True)
            waiting, rows, first = [], 0, False
    if waiting and (rows or first):
        yield pl.concat(waiting, rechunk=True)


def sorted_positions(values: Array, space: RowStorage) -> Integers:
    """Stable argsort of values [N] without NaN, int64 [N]."""
    rows = len(values)
    ascending = stored(values, space)
    ascending.sort()
    order = space.array((rows,), np.int64)
    # For each distinct value, at its first position: how many were placed so far.
    before = filled(space.array((rows,), np.int64), 0)
    for start, stop in bounds(rows):
        some = values[start:stop]
        forwards = np.argsort(some, kind="stable")
        first = np.searchsorted(ascending, some[forwards])
        starts = np.flatnonzero(np.diff(first, prepend=-1))
        equal = np.diff(starts, append=len(first))
        among = np.arange(len(first)) - np.repeat(starts, equal)
        order[first + before[first] + among] = forwards + start
        before[first[starts]] += equal
    return order


def dense_ranks(values: Array, space: RowStorage) -> Integers:
    """Dense ranks of values [N] without NaN, from 1, int64 [N]."""
    different = _different(values, space)
    ranks = space.array((len(values),), np.int64)
    for start, stop in bounds(len(values)):
        ranks[start:stop] = np.searchsorted(different, values[start:stop]) + 1
    return ranks


def filled(values: Array, number: int) -> Array:
    """Fill an array with a number."""
    for start, stop in bounds(len(values)):
        values[start:stop] = number
    return values


def _different(values: Array, space: RowStorage) -> Array:
    """Distinct values, ascending, compacted to the front of the sorted array."""
    ascending = stored(values, space)
    ascending.sort()
    count = 0
    for start, stop in bounds(len(ascending)):
        some = np.unique(ascending[start:stop])
        if count and len(some) and some[0] == ascending[count - 1]:
            some = some[1:]
        # Writes stay behind the read position.
        ascending[count : count + len(some)] = some
        count += len(some)
    return ascending[:count]
