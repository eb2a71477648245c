"""Numbers put in order where there may be more of them than memory holds: sorted in the room of a
space, and looked at a slice at a time."""

from __future__ import annotations

import numpy as np

from trainwright.data.base.row_storage import Array, RowStorage, bounds, stored
from trainwright.data.base.table import Integers


def sorted_positions(values: Array, space: RowStorage) -> Integers:
    """Which of the values [N], none of them NaN, stands at each place in ascending order, int64
    [N]; equal ones as they lie."""
    rows = len(values)
    ascending = stored(values, space)
    ascending.sort()
    order = space.array((rows,), np.int64)
    # Of each different value, at its first place: how many were put in order so far.
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
    """The rank of each value [N], none of them NaN, among the different ones, from 1, int64 [N]."""
    different = _different(values, space)
    ranks = space.array((len(values),), np.int64)
    for start, stop in bounds(len(values)):
        ranks[start:stop] = np.searchsorted(different, values[start:stop]) + 1
    return ranks


def filled(values: Array, number: int) -> Array:
    """The same array with this number everywhere."""
    for start, stop in bounds(len(values)):
        values[start:stop] = number
    return values


def _different(values: Array, space: RowStorage) -> Array:
    """The different values, ascending; they lie in front of the room of all."""
    ascending = stored(values, space)
    ascending.sort()
    count = 0
    for start, stop in bounds(len(ascending)):
        some = np.unique(ascending[start:stop])
        if count and len(some) and some[0] == ascending[count - 1]:
            some = some[1:]
        # Never beyond what was looked at.
        ascending[count : count + len(some)] = some
        count += len(some)
    return ascending[:count]
