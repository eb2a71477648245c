"""Groups of rows with equal values in a column, and their assignment to bins of given sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.data.base.cleaned_cells import unchanged
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.base.row_storage import IN_MEMORY, RowStorage, bounds, slices_of

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
    """Group code of each row, int64 [N]; a row without a group is one of its own."""
    return _code_columns(Groups.of([column]), [column], space)[0]


def _code_columns(
    groups: Groups, columns: Sequence[pl.Series], space: RowStorage
) -> list[Integers]:
    """Group codes of the rows of each column; rows without a group have codes of their own."""
    following, coded = len(groups), []
    for column in columns:
        codes = groups.codes(column, space)
        for start, stop in bounds(len(codes)):
            alone = np.flatnonzero(codes[start:stop] == 0)
            codes[start + alone] = following + np.arange(len(alone))
            following += len(alone)
        coded.append(codes)
    return coded


def combined_label_codes(
    columns: Iterable[pl.Series], space: RowStorage = IN_MEMORY
) -> list[Integers]:
    """As `group_codes`, of several columns jointly, read as labels."""
    listed = list(columns)
    return _code_columns(Groups.of(listed, to_labels), listed, space)


def members(column: pl.Series, space: RowStorage = IN_MEMORY) -> tuple[Integers, Integers]:
    """Group of each row from 0, int64 [N], and group sizes, int64 [G]."""
    codes = group_codes(column, space)
    for start, stop in bounds(len(codes)):
        codes[start:stop] -= 1
    return codes, np.bincount(codes)


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


def fill_bins(sizes: Integers, wanted: Sequence[float], keys: npt.NDArray[np.uint64]) -> Integers:
    """Bin of each group, int64 [G]: greedily, in the random order of `keys`, to the bin with the
    largest deficit; groups too large for the smallest bin go first.

    `wanted` is the target size of each bin; -inf excludes a bin. No other bin stays empty while
    there are enough groups.
    """
    left = np.array(wanted, dtype=np.float64)
    open_bins = np.flatnonzero(left > -np.inf)
    large = np.where(sizes > left[open_bins].min(), sizes, 0)
    chosen = np.empty(len(sizes), dtype=np.int64)
    for group in np.lexsort((keys, -large)):
        one = int(np.argmax(left))
        chosen[group] = one
        left[one] -= sizes[group]
    _fill_empty(chosen, sizes, open_bins)
    return chosen


def fill_bins_by_class(
    counts: Floats, shares: Sequence[float], keys: npt.NDArray[np.uint64]
) -> Integers:
    """Bin of each group, int64 [G], stratified by class.

    `counts` [G, C] are the rows of each class in each group; `shares` of the bins sum to 1, and a
    bin with 0 gets none. Groups of uneven classes go first, each to the bin that it brings nearest
    to what it wants, as in scikit-learn's StratifiedGroupKFold; bins may differ in size here: the
    sum over classes of ((rows - wanted) / rows of the class)^2 / share of the bin is kept low.
    """
    share = np.array(shares, dtype=np.float64)
    open_bins = np.flatnonzero(share > 0)
    share = share[open_bins]
    relative = counts / np.maximum(counts.sum(axis=0), 1.0)
    filled = np.zeros((len(share), counts.shape[1]))
    chosen = np.empty(len(counts), dtype=np.int64)
    for group in np.lexsort((keys, -relative.std(axis=1), -relative.sum(axis=1))):
        mine = relative[group]
        gained = (mine * (mine + 2 * (filled - share[:, None]))).sum(axis=1) / share
        one = int(np.argmin(gained))
        chosen[group] = open_bins[one]
        filled[one] += mine
    _fill_empty(chosen, counts.sum(axis=1).astype(np.int64), open_bins)
    return chosen


def _fill_empty(chosen: Integers, sizes: Integers, bins: Integers) -> None:
    """Move the smallest group of the bin with most groups to each empty bin."""
    for one in bins:
        counts = np.bincount(chosen, minlength=int(bins.max()) + 1)
        if counts[one] == 0 and counts.max() > 1:
            donors = np.flatnonzero(chosen == int(np.argmax(counts)))
            chosen[donors[np.argmin(sizes[donors])]] = one
