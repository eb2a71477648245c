"""Assignment of whole groups to bins of given sizes, optionally stratified."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from trainwright.data.base.table import Floats, Integers


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
