"""Splits defined by a file, matched to the rows of the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.sections.data.split import FileSplit, Split
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.formatting import many
from trainwright.data.base.cleaned_cells import Cells, Cleaning
from trainwright.data.base.inputs import Integers
from trainwright.data.base.messages import Wrong, quoted, some
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.base.row_storage import (
    Array,
    RowStorage,
    bounds,
    chosen_positions,
    filled,
    sorted_positions,
)
from trainwright.data.sources.find_source import read_source
from trainwright.data.sources.source_file import FileVersion
from trainwright.data.split.groups import Groups

NOWHERE = -1
_SEEDS = (0, 1)

PART_COLUMN = "\uffffpart"
"""Column of the training frame with the part from the file. The name is an unassigned code point,
so no file has a column of this name."""

_PART, _ROW = "part", "row"
_SECONDS, _DAY = r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.0+$", r"^(\d{4}-\d\d-\d\d) 00:00:00$"


@final
@dataclass(frozen=True, slots=True)
class KeyIndex:
    """Index of M keys by two hashes: `ascending` uint64 [M] is the first, sorted, `order` int64 [M]
    the sorting permutation, `others` uint64 [M] the second of each key."""

    ascending: Array
    order: Integers
    others: Array

    @classmethod
    def of(cls, keys: Callable[[int, int], pl.Series], count: int, space: RowStorage) -> KeyIndex:
        """Index `count` text keys; `keys` gives those of a slice."""
        hashes = [space.array((count,), np.uint64) for _ in _SEEDS]
        for start, stop in bounds(count):
            some = keys(start, stop)
            for seed, one in zip(_SEEDS, hashes, strict=True):
                one[start:stop] = some.hash(seed).to_numpy()
        order = sorted_positions(hashes[0], space)
        hashes[0].sort()
        return cls(hashes[0], order, hashes[1])

    def find(self, keys: pl.Series) -> Integers:
        """Position of each key, int64 [B]; `NOWHERE` if absent."""
        first, second = (keys.hash(seed).to_numpy() for seed in _SEEDS)
        found = np.full(len(keys), NOWHERE)
        at = np.searchsorted(self.ascending, first)
        # Nearly always one pass: keys with equal first hashes are adjacent.
        left = np.flatnonzero(keys.is_not_null().to_numpy())
        while left.size:
            left = left[at[left] < len(self.ascending)]
            left = left[self.ascending[at[left]] == first[left]]
            places = self.order[at[left]]
            same = self.others[places] == second[left]
            found[left[same]] = places[same]
            left = left[~same]
            at[left] += 1
        return found

    def alike(self, space: RowStorage) -> Integers:
        """Ascending positions of keys whose first hash is shared."""

        def chosen(start: int, stop: int) -> npt.NDArray[np.bool_]:
            own = self.ascending[start:stop]
            behind = np.searchsorted(self.ascending, own, side="right")
            return np.asarray(behind - np.searchsorted(self.ascending, own) > 1)

        return np.sort(self.order[chosen_positions(len(self.ascending), chosen, space)])


@final
@dataclass(frozen=True, slots=True)
class WrittenSplit:
    """A split file: the part of each key, a column of `frame`. `files` is empty if the split is not
    in a file; `key` is empty if rows are matched by position."""

    key: str
    frame: pl.DataFrame
    files: tuple[FileVersion, ...]

    def keys(self, start: int, stop: int) -> pl.Series:
        """Keys of these lines as text."""
        return _written(self.frame[self.key or _ROW].slice(start, stop - start))


NOT_WRITTEN = WrittenSplit("", pl.DataFrame(), ())


def read_split_file(split: Split, folder: Path) -> WrittenSplit:
    """Read the split file, relative to `folder`.

    Raises:
        DataMistake: it cannot be read, or lacks a column.
    """
    if not isinstance(split, FileSplit):
        return NOT_WRITTEN
    source = read_source(split.path, folder, "data.split.path")
    key = split.key or _ROW
    lacking = [name for name in (key, _PART) if name not in source.frame.columns]
    if lacking:
        raise DataMistake(
            Problem(
                "the split file lacks columns",
                path="data.split.path",
                found=f"no {quoted(lacking)} among {some(source.frame.columns, 8)}",
                expected=f"the columns {key!r} and {_PART!r}",
                fix="write them, or name the key in data.split.key",
                place=Place(split.path),
            )
        )
    return WrittenSplit(split.key, source.frame.select(key, _PART), (source.version,))


def with_parts(
    frame: pl.DataFrame,
    cells: Sequence[Cells],
    written: WrittenSplit,
    space: RowStorage,
) -> pl.DataFrame:
    """`frame` with the part of each row in `PART_COLUMN`. `cells` are its cleaned columns,
    including the key if the split has one.

    Raises:
        DataMistake: rows absent from or repeated in the file, and keys that no row has.
    """
    if not written.files:
        return frame
    lines = written.frame.height
    places = KeyIndex.of(written.keys, lines, space)
    _check_once(places, written, space)
    groups = Groups.of([written.frame[_PART]], _written)
    parts = groups.codes(written.frame[_PART], space)
    names = pl.concat([pl.Series([None], dtype=pl.String), groups.names])
    named = filled(space.array((lines,), np.bool_), False)
    keys_of, unnamed = _keys_of(cells, written), Wrong()

    def found() -> Iterator[pl.DataFrame]:
        for start, stop in bounds(frame.height):
            keys = keys_of(start, stop)
            at = places.find(keys)
            absent = at == NOWHERE
            unnamed.add(keys.filter(pl.Series(absent)))
            named[at[~absent]] = True
            codes = np.zeros(len(at), dtype=np.int64)
            codes[~absent] = parts[at[~absent]]
            yield names.gather(codes).alias(PART_COLUMN).to_frame()

    column = space.frame(found())[PART_COLUMN]
    problems = _problems(unnamed, named, written)
    if problems:
        raise DataMistake(problems)
    return frame.with_columns(column)


def _keys_of(cells: Sequence[Cells], written: WrittenSplit) -> Callable[[int, int], pl.Series]:
    """Function from a slice of rows to their keys as text."""
    if not written.key:
        return _places
    keys = next(one for one in cells if one.name == written.key)
    return lambda start, stop: _text(keys.between(start, stop))


def _places(start: int, stop: int) -> pl.Series:
    return pl.int_range(start, stop, eager=True).cast(pl.String)


def _check_once(places: KeyIndex, written: WrittenSplit, space: RowStorage) -> None:
    def missing(start: int, stop: int) -> npt.NDArray[np.bool_]:
        return written.keys(start, stop).is_null().to_numpy()

    empty = chosen_positions(written.frame.height, missing, space)
    lines = np.union1d(places.alike(space), empty)
    if not len(lines):
        return
    keys = _written(written.frame[written.key or _ROW].gather(lines))
    twice = Wrong()
    twice.add(keys.filter(keys.is_duplicated() | keys.is_null()))
    if twice.count:
        raise DataMistake(
            Problem(
                f"the split file has missing or repeated keys: {many(twice.count, 'line')}",
                path="data.split.path",
                found=str(twice),
                expected="each key on one line",
                fix="remove these lines",
                place=Place(written.files[0].path),
            )
        )


def _problems(unnamed: Wrong, named: npt.NDArray[np.bool_], written: WrittenSplit) -> list[Problem]:
    place = Place(written.files[0].path)
    problems: list[Problem] = []
    if unnamed.count:
        problems.append(
            Problem(
                f"the split file lacks {many(unnamed.count, 'row')} of the data",
                path="data.split.path",
                found=str(unnamed),
                expected="a line for every row",
                fix="add the lines",
                place=place,
            )
        )
    strange = Wrong()
    for start, stop in bounds(len(named)):
        strange.add(written.keys(start, stop).filter(pl.Series(~named[start:stop])))
    if strange.count:
        problems.append(
            Problem(
                f"the split file names {many(strange.count, 'row')} that the data does not have",
                path="data.split.path",
                found=str(strange),
                expected="only rows of the data",
                fix="remove the lines, or check that the file belongs to this data",
                place=place,
            )
        )
    return problems


def _written(series: pl.Series) -> pl.Series:
    """Cells of the file as text, cleaned as the data."""
    return _text(Cleaning((), {}).cells(series))


def _text(cells: pl.Series) -> pl.Series:
    """Cleaned cells as text; trailing zeros of a time are dropped, since formats write different
    ones."""
    return to_labels(cells).str.replace(_SECONDS, "${1}").str.replace(_DAY, "${1}")
