"""Length-bucketed sampling in a stateless random order."""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt

from trainwright.data.base.counter_rng import Permutation, Positions, integers
from trainwright.data.base.inputs import Integers
from trainwright.data.sampling.samplers import derived

_MOST_LEVELS = 512
_FEWEST_GROUPS = 4


@final
class BucketSampler:
    """Every row once per epoch, in groups of similar lengths.

    The rows lie on a line from the shortest to the longest, which is cut into buckets (`cut_line`).
    In an epoch each bucket is shuffled within itself; the line is cut into groups of `group` rows,
    and the groups are shuffled. What is left over is one smaller group, at the end of the epoch,
    from a place of the line that differs from epoch to epoch. A feed whose steps have `group` rows,
    or a divisor of that, has each step within a group.

    Sample i of epoch e is a function of the seed, e and i, found in a time that does not depend on
    i. The line takes 8 bytes a row.

    Args:
        lengths: of each row, [N], whole numbers from 1 on.
        buckets: maximum number of separately shuffled buckets; each has at least four groups, so
            that their rows differ between epochs. 1 makes every group random.
        group: rows of a group, those of a step.
        seed: where the order starts.
    """

    def __init__(self, lengths: npt.ArrayLike, buckets: int, group: int, seed: int = 0) -> None:
        assert buckets >= 1
        assert group >= 1
        sizes = np.asarray(lengths, np.int64)
        self._line = np.argsort(sizes, kind="stable")
        self.rows = len(self._line)
        self._group = group
        self._seed = seed
        self.starts = cut_line(sizes[self._line], buckets, _FEWEST_GROUPS * group)
        self._within = [
            Permutation(int(size), derived(seed, f"bucket {bucket}"))
            for bucket, size in enumerate(np.diff(self.starts))
        ]
        self._groups = Permutation(self.rows // group, derived(seed, "groups"))

    @property
    def buckets(self) -> int:
        """Number of buckets."""
        return len(self._within)

    def at(self, epoch: int, start: int, stop: int) -> Positions:
        """Rows of samples of an epoch."""
        places = self._places(epoch, np.arange(start, stop, dtype=np.int64))
        owners = np.searchsorted(self.starts, places, side="right") - 1
        rows = np.empty(len(places), dtype=np.int64)
        for bucket in np.unique(owners):
            here = np.flatnonzero(owners == bucket)
            first = int(self.starts[bucket])
            shuffled = self._within[bucket].of(epoch, places[here] - first)
            rows[here] = self._line[first + shuffled]
        return rows

    def _places(self, epoch: int, samples: Positions) -> Positions:
        """Positions of samples on the line of an epoch, with each bucket shuffled."""
        groups, rest = divmod(self.rows, self._group)
        (before,) = integers(
            groups + 1, self._seed, "smaller group", epoch, np.zeros(1, dtype=np.int64)
        )
        places: Positions = samples - groups * self._group + before * self._group
        whole = np.flatnonzero(samples < groups * self._group)
        number, within = np.divmod(samples[whole], self._group)
        drawn = self._groups.of(epoch, number)
        places[whole] = drawn * self._group + within + rest * (drawn >= before)
        return places


def cut_line(lengths: Integers, buckets: int, fewest: int) -> Integers:
    """Where the buckets of rows in ascending `lengths` [N] begin, and N: int64 [B + 1].

    At most `buckets` of them, each with at least `fewest` rows, so that the sum over all rows of
    the longest length in their bucket is the least there can be, by dynamic programming over the
    different lengths. That sum bounds the places of the batches of a bucket, padding included. Of
    more than 512 different lengths neighbours count as one.
    """
    if not len(lengths):
        return np.zeros(2, dtype=np.int64)
    levels, firsts = np.unique(-(-lengths // -(-lengths[-1] // _MOST_LEVELS)), return_index=True)
    before = np.append(firsts, len(lengths))
    rows = before[None, 1:] - before[:-1, None]
    filled = np.where(rows >= fewest, rows * levels[None, :], np.inf)
    # least[j]: of the rows of the first j levels, cut into as many buckets as there were rounds.
    least = np.append(0.0, np.full(len(levels), np.inf))
    total, chosen = np.inf, [0, len(levels)]
    opened: list[Integers] = []
    while len(opened) < buckets:
        costs = least[:-1, None] + filled
        opened.append(costs.argmin(axis=0))
        least = np.append(np.inf, costs.min(axis=0))
        if np.isinf(least[-1]):
            break
        if least[-1] < total:
            total, chosen = least[-1], _walked(opened, len(levels))
    return before[chosen].astype(np.int64)


def _walked(opened: list[Integers], levels: int) -> list[int]:
    """Backtrack the start level of each bucket; ends with the number of levels."""
    ends = [levels]
    for begins in reversed(opened):
        ends.append(int(begins[ends[-1] - 1]))
    return ends[::-1]
