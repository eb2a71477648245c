"""Groups of rows: those with one value in a column."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from trainwright.data.base.cell_values import as_it_is, to_labels
from trainwright.data.base.row_storage import IN_MEMORY, RowStorage, bounds, slices_of
from trainwright.data.base.table import Floats, Integers

Read = Callable[[pl.Series], pl.Series]


@final
@dataclass(frozen=True, slots=True)
class Groups:
    """The different values of a column, `names`, ascending. They are in memory, whatever the rows
    are in."""

    names: pl.Series
    read: Read

    @classmethod
    def of(cls, columns: Iterable[pl.Series], read: Read = as_it_is) -> Groups:
        """The groups of columns taken together, whose values `read` reads a slice at a time."""
        waiting: list[pl.Series] = []
        count, most = 0, 0
        for some in (some for column in columns for some in slices_of(column)):
            waiting.append(read(some).drop_nulls().unique())
            count += len(waiting[-1])
            # Seldom, as all that were found are looked at each time.
            if count > 2 * most:
                waiting = [pl.concat(waiting).unique()]
                count = most = len(waiting[0])
        return cls(pl.concat(waiting).unique().sort(), read)

    def __len__(self) -> int:
        """How many numbers there are, that of rows without a group among them."""
        return len(self.names) + 1

    def codes(self, column: pl.Series, space: RowStorage = IN_MEMORY) -> Integers:
        """The number of each row's group, from 1, int64 [N]; all rows without one are one group,
        0."""
        codes = space.array((len(column),), np.int64)
        for (start, stop), some in zip(bounds(len(column)), slices_of(column), strict=True):
            values = self.read(some)
            places = self.names.search_sorted(values).cast(pl.Int64).to_numpy() + 1
            codes[start:stop] = np.where(values.is_null().to_numpy(), 0, places)
        return codes


def group_codes(column: pl.Series, space: RowStorage = IN_MEMORY) -> Integers:
    """A number for each row's group, int64 [N]; all rows without one are one group."""
    return Groups.of([column]).codes(column, space)


def combined_label_codes(
    columns: Iterable[pl.Series], space: RowStorage = IN_MEMORY
) -> list[Integers]:
    """The same of several columns taken together, whose values are read as labels."""
    listed = list(columns)
    groups = Groups.of(listed, to_labels)
    return [groups.codes(column, space) for column in listed]


def members(column: pl.Series, space: RowStorage = IN_MEMORY) -> tuple[Integers, Integers]:
    """The group of each row, int64 [N], counted from 0 on, and the rows of each group, int64
    [G]."""
    codes = group_codes(column, space)
    sizes = np.bincount(codes)
    if len(sizes) and not sizes[0]:
        # No row is without a group.
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
