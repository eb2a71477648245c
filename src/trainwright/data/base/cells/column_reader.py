"""Cleaned cells of one column, possibly larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Self, final

import numpy as np
import polars as pl

from trainwright.data.base.cells.cell_values import (
    FIRST_DATES,
    ReadColumn,
    formats_of,
    to_numbers,
    unchanged,
)
from trainwright.data.base.storage.mapped_pages import release_pages
from trainwright.data.base.storage.row_storage import IN_MEMORY, RowStorage, bounds

_MOST_HELD = 65_536


@final
class Cells:
    """N cells of a file, cleaned by `clean`: once, and cached until `let_go`, if they fit into
    memory, otherwise on each access to a chunk. Statistics over all cells only need room in
    `space`."""

    def __init__(
        self,
        raw: pl.Series,
        clean: Callable[[pl.Series], pl.Series] = unchanged,
        space: RowStorage = IN_MEMORY,
    ) -> None:
        self._raw, self._clean, self._space = raw, clean, space
        self._held: tuple[pl.Series, ...] = ()
        self.name = raw.name
        self.dtype = clean(raw.head(0)).dtype

    def __len__(self) -> int:
        return len(self._raw)

    def between(self, start: int, stop: int) -> pl.Series:
        """Cells of these rows."""
        if self._held:
            return self._held[0].slice(start, stop - start)
        return self._clean(self._raw.slice(start, stop - start))

    @property
    def in_memory(self) -> bool:
        """May all cells be in memory at once?"""
        return self._space is IN_MEMORY

    def let_go(self) -> None:
        """Free the memory of the cleaned cells and of the mapped pages that they were read from;
        computed statistics are kept."""
        self._held = ()
        release_pages()

    def counted(self) -> Self:
        """Count missing and distinct values, then `let_go`."""
        _ = self.missing, self.distinct
        self.let_go()
        return self

    def _cleaned(self) -> pl.Series:
        if not self._held:
            self._held = (self._clean(self._raw),)
        return self._held[0]

    def whole(self) -> pl.Series:
        """All cells in memory, for error messages."""
        return self._cleaned() if self.in_memory else self.between(0, len(self))

    def slices(self) -> Iterator[pl.Series]:
        """All cells, in chunks."""
        if self.in_memory:
            self._cleaned()
        for start, stop in bounds(len(self)):
            yield self.between(start, stop)

    @property
    def is_nested(self) -> bool:
        """Are the values nested?"""
        return self.dtype.is_nested() or self.dtype in (pl.Binary, pl.Object)

    @cached_property
    def missing(self) -> int:
        """Cells without a value."""
        return sum(one.null_count() for one in self.slices())

    @property
    def present(self) -> int:
        """Cells with a value."""
        return len(self) - self.missing

    def first(self, count: int) -> pl.Series:
        """The first present values."""
        found = self.between(0, 0)
        for start, stop in bounds(len(self)):
            values = self.between(start, stop).drop_nulls()
            found = pl.concat([found, values.head(count - len(found))])
            if len(found) == count:
                break
        return found

    @cached_property
    def distinct(self) -> int:
        """Number of distinct values; 0 if nested."""
        if self.is_nested:
            return 0
        if self.in_memory:
            return self._cleaned().drop_nulls().n_unique()
        found = self.between(0, 0)
        for one in self.slices():
            found = pl.concat([found, one.drop_nulls().unique()]).unique()
            if len(found) > _MOST_HELD:
                return self._distinct_of_many()
        return len(found)

    @cached_property
    def numbers(self) -> ReadColumn:
        """All cells in memory, parsed as numbers."""
        return to_numbers(self.whole())

    @cached_property
    def not_numbers(self) -> int:
        """Number of values that do not parse as numbers."""
        if not self.in_memory:
            return sum(len(to_numbers(one).bad) for one in self.slices())
        if count := len(self.numbers.bad):
            # Only a numeric column needs them again.
            del self.numbers
        return count

    @cached_property
    def date_formats(self) -> tuple[str, ...]:
        """As `values.date_formats`."""
        return formats_of(self.first(FIRST_DATES), self.slices())

    def _distinct_of_many(self) -> int:
        """Distinct count by sorted 64-bit hashes."""
        hashes = self._space.array((self.present,), np.uint64)
        filled = 0
        for one in self.slices():
            words = one.drop_nulls().hash(seed=0).to_numpy()
            hashes[filled : filled + len(words)] = words
            filled += len(words)
        hashes.sort()
        changes = (np.count_nonzero(np.diff(hashes[a : b + 1])) for a, b in bounds(len(hashes)))
        return 1 + int(sum(changes))
