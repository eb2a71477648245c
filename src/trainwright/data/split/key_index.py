"""Key lookup without the keys in memory, by two 64-bit hashes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.data.base.storage.external_sort import sorted_positions
from trainwright.data.base.storage.row_storage import Array, RowStorage, bounds, chosen_positions
from trainwright.data.base.table import Integers

NOWHERE = -1
_SEEDS = (0, 1)


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
