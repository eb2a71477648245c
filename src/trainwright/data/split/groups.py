"""Groups of rows with equal values in a column."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from trainwright.data.base.cells.cleaned_cells import unchanged
from trainwright.data.base.cells.parse_cells import to_labels
from trainwright.data.base.storage.row_storage import IN_MEMORY, RowStorage, bounds, slices_of
from trainwright.data.base.table import Floats, Integers

Read = Callable[[pl.Series], pl.Series]


@final
@dataclass(frozen=True, slots=True)
class Groups:
    """Distinct values of a column, `names`, ascending. They are in memory, wherever the rows
    are."""

    names: pl.Series
    read: Read

    @classmethod
    def of(cls, columns: Iterable[pl.Series], read: Read = unchanged) -> Groups:
        """Groups over several columns, whose values `read` reads in chunks."""
        waiting: list[pl.Series] = []
        count, most = 0, 0
        for some in (some for column in columns for some in slices_of(column)):
            waiting.append(read(some).drop_nulls().unique())
            count += len(waiting[-1])
            # Rarely, since each time costs a pass over all values found.
            if count > 2 * most:
                waiting = [pl.concat(waiting).unique()]
                count = most = len(waiting[0])
        return cls(pl.concat(waiting).unique().sort(), read)

    def __len__(self) -> int:
        """Number of codes, including that of rows without a group."""
        return len(self.names) + 1

    def codes(self, column: pl.Series, space: RowStorage = IN_MEMORY) -> Integers:
        """Group code of each row, int64 [N], from 1; rows without a group are 0."""
        codes = space.array((len(column),), np.int64)
        for (start, stop), some in zip(bounds(len(column)), slices_of(column), strict=True):
            values = self.read(some)
            places = self.names.search_sorted(values).cast(pl.Int64).to_numpy() + 1
            codes[start:stop] = np.where(values.is_null().to_numpy(), 0, places)
        return codes


def group_codes(column: pl.Series, space: RowStorage = IN_MEMORY) -> Integers:
    """Group code of each row, int64 [N]; rows without a group form one group."""
    return Groups.of([column]).codes(column, space)


def combined_label_codes(
    columns: Iterable[pl.Series], space: RowStorage = IN_MEMORY
) -> list[Integers]:
    """Joint codes of several columns, read as labels."""
    listed = list(columns)
    groups = Groups.of(listed, to_labels)
    return [groups.codes(column, space) for column in listed]


def members(column: pl.Series, space: RowStorage = IN_MEMORY) -> tuple[Integers, Integers]:
    """Group of each row from 0, int64 [N], and group sizes, int64 [G]."""
    codes = group_codes(column, space)
    sizes = np.bincount(codes)
    if len(sizes) and not sizes[0]:
        # Every row has a group.
        for start, stop in bounds(len(codes)):
            codes[start:stop] -= 1
        sizes = sizes[1:]
    return codes, sizes


def classes_of_groups(
    frame: pl.DataFrame, target: str, column: str, space: RowStorage = IN_MEMORY
) -> tuple[Floats, Integers]:
    """Rows of each class in each group, float64 [G, C], and the group of each row, int64 [N]."""
    member, sizes = members(frame[column], space)
    label, classes = members(frame[target], space)
    counts = np.zeros((len(sizes), len(classes)))
    for start, stop in bounds(len(member)):
        np.add.at(counts, (member[start:stop], label[start:stop]), 1.0)
    return counts, member
