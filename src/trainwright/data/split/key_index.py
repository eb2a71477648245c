"""Where a key stands among many, without the keys in memory: by two hashes of 64 bits each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.data.base.external_sort import sorted_positions
from trainwright.data.base.row_storage import Array, RowStorage, bounds, chosen_positions
from trainwright.data.base.table import Integers

NOWHERE = -1
_SEEDS = (0, 1)


@final
@dataclass(frozen=True, slots=True)
class KeyIndex:
    """M keys, of which there are two hashes: `ascending` uint64 [M] is the first in its order,
    `order` int64 [M] the key at each place of it, `others` uint64 [M] the second of each key."""

    ascending: Array
    order: Integers
    others: Array

    @classmethod
    def of(cls, keys: Callable[[int, int], pl.Series], count: int, space: RowStorage) -> KeyIndex:
        """The places of so many keys, texts: `keys` gives those of a slice."""
        hashes = [space.array((count,), np.uint64) for _ in _SEEDS]
        for start, stop in bounds(count):
            some = keys(start, stop)
            for seed, one in zip(_SEEDS, hashes, strict=True):
                one[start:stop] = some.hash(seed).to_numpy()
        order = sorted_positions(hashes[0], space)
        hashes[0].sort()
        return cls(hashes[0], order, hashes[1])

    def find(self, keys: pl.Series) -> Integers:
        """The place of each key, int64 [B]; `NOWHERE` for one that is not there."""
        first, second = (keys.hash(seed).to_numpy() for seed in _SEEDS)
        found = np.full(len(keys), NOWHERE)
        at = np.searchsorted(self.ascending, first)
        # Nearly always once: other keys with the same first hash stand behind one another.
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
        """The places, ascending, of the keys whose first hash another key has too."""

        def chosen(start: int, stop: int) -> npt.NDArray[np.bool_]:
            own = self.ascending[start:stop]
            behind = np.searchsorted(self.ascending, own, side="right")
            return np.asarray(behind - np.searchsorted(self.ascending, own) > 1)

        return np.sort(self.order[chosen_positions(len(self.ascending), chosen, space)])
