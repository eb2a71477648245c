"""External sort: numbers that may exceed memory, sorted in a `RowStorage` and processed in
chunks."""

from __future__ import annotations

import numpy as np

from trainwright.data.base.storage.row_storage import Array, RowStorage, bounds, stored
from trainwright.data.base.table import Integers


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
