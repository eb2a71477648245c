"""How much of padded batches is padding, by arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.data.buckets import BucketDraws
from trainwright.data.draws import Draws
from trainwright.data.table import Integers

_MOST_SAMPLES = 2**17
_LEAST_SAVED = 0.01


@final
@dataclass(frozen=True, slots=True)
class Widths:
    """How wide batches are: as their longest row, rounded up to a multiple of `multiple`, but never
    more than `most` places."""

    multiple: int
    most: int

    def of(self, longest: Integers) -> Integers:
        """The widths of batches whose longest rows have so many places."""
        rounded = -(-longest // self.multiple) * self.multiple
        return np.minimum(rounded, self.most)


def measure_padding(lengths: Integers, draws: Draws, batch: int, widths: Widths) -> float:
    """The share of padding, from 0 to 1, in the first epoch of rows of `lengths` in batches of
    `batch`; of long epochs in their first 131,072 rows."""
    count = min(draws.rows, max(batch, _MOST_SAMPLES // batch * batch))
    if not count:
        return 0.0
    shown = lengths[draws.at(0, 0, count)]
    starts = np.arange(0, count, batch)
    wide = widths.of(np.maximum.reduceat(shown, starts))
    places = int((wide * np.diff(np.append(starts, count))).sum())
    return 1 - int(shown.sum()) / places


@final
@dataclass(frozen=True, slots=True)
class Bucketing:
    """How many buckets, and the share of padding with them and without."""

    buckets: int
    padding: float
    without: float


def choose_buckets(lengths: Integers, group: int, widths: Widths, seed: int) -> Bucketing:
    """Twice as many buckets as long as that saves a hundredth of the places."""

    def padding(draws: BucketDraws) -> float:
        return measure_padding(lengths, draws, group, widths)

    best = BucketDraws(lengths, 1, group, seed)
    share = without = padding(best)
    while True:
        finer = BucketDraws(lengths, 2 * best.buckets, group, seed)
        less = padding(finer)
        if finer.buckets == best.buckets or share - less < _LEAST_SAVED:
            return Bucketing(best.buckets, share, without)
        best, share = finer, less
