"""Pairs of rows that agree in some columns: observed and expected by chance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from trainwright.data.base.storage.row_storage import spread_rows
from trainwright.data.base.table import Integers

MOSTLY = 0.6
"""Equal rows are coincidences if this share of their pairs is expected by chance."""

_HARDLY = 0.1
"""The same for rows that agree in all columns but one."""

_MOST_ROWS, _MOST_COLUMNS = 50_000, 20
"""Larger data is subsampled evenly to estimate the expected agreement."""

_BESIDE = 5
"""A column repeats if a row shares its value with this many others on average."""


@final
@dataclass(frozen=True, slots=True)
class Agreement:
    """N rows of F columns: a 64-bit hash of every cell, uint64 [N, F], and which columns may agree
    by chance: not texts, and not labels, in which a copy may differ."""

    hashes: np.ndarray
    explains: tuple[bool, ...]

    @classmethod
    def of(cls, frame: pl.DataFrame, no_chance: frozenset[str]) -> Agreement:
        """Hash the cells of a frame; `no_chance` are its text and label columns."""
        # The column index is in the seed so that equal cells of two columns do not cancel out.
        columns = [series.hash(seed=at).to_numpy() for at, series in enumerate(frame)]
        return cls(
            np.stack(columns, axis=1), tuple(name not in no_chance for name in frame.columns)
        )

    def by_chance(self) -> bool:
        """Are most pairs of equal rows expected by chance, since the columns have few values?

        Two columns must agree on this: a single nearly constant column would excuse every copy
        because of the few rows in which it differs. With only one usable column, its values must
        repeat.
        """
        chance = _Chance.of(self)
        if len(chance.agree) == 1 and min(chance.agree.values()) * len(self.hashes) < _BESIDE:
            return False
        shares = chance.shares(_pairs(_whole(self.hashes)))
        return sum(share >= MOSTLY for share in shares) >= min(2, max(1, len(chance.agree)))

    def but_for_one(self, columns: Integers) -> Integers:
        """Pairs [P, 2] of consecutive rows that agree in all columns but one of `columns`, beyond
        chance."""
        whole, chance = _whole(self.hashes), _Chance.of(self)
        found = [np.empty((0, 2), dtype=np.int64)]
        for at in columns.tolist():
            keys = whole - self.hashes[:, at]
            order = np.argsort(keys, kind="stable")
            same = keys[order[1:]] == keys[order[:-1]]
            if not same.any():
                continue
            if all(share < _HARDLY for share in chance.shares(_pairs(keys), at)):
                found.append(np.stack([order[:-1][same], order[1:][same]], axis=1))
        return np.concatenate(found)


@final
@dataclass(frozen=True, slots=True)
class _Chance:
    """Expected agreement by chance, estimated on an even subsample of rows [n] (`hashes`, `whole`)
    and of non-constant columns: for each column the probability that two rows agree in it. `scale`
    is the number of pairs in all rows per sampled pair."""

    hashes: np.ndarray
    whole: np.ndarray
    agree: Mapping[int, float]
    scale: float

    @classmethod
    def of(cls, rows: Agreement) -> _Chance:
        size = len(rows.hashes)
        hashes = rows.hashes[spread_rows(size, _MOST_ROWS)]
        able = np.flatnonzero(rows.explains)
        chosen = able[spread_rows(len(able), _MOST_COLUMNS)].tolist()
        every = len(hashes) * (len(hashes) - 1) / 2
        agree = {at: _pairs(hashes[:, at]) / every for at in chosen}
        telling = {at: chance for at, chance in agree.items() if chance < 1}
        return cls(hashes, _whole(hashes), telling, (size / len(hashes)) ** 2)

    def shares(self, pairs: float, *without: int) -> Iterator[float]:
        """Share of the `pairs` that agree in all columns but `without` that is expected by chance,
        one estimate for each remaining column.

        The expectation is the number of pairs that agree in one column fewer, times the probability
        of agreeing in that column: higher than under full independence where columns are
        correlated.
        """
        keys = self.whole
        for at in without:
            keys = keys - self.hashes[:, at]
        seen = _pairs(keys)
        for at, agree in self.agree.items():
            if at not in without:
                others = self.scale * (_pairs(keys - self.hashes[:, at]) - seen)
                yield others * agree / (1 - agree) / max(1.0, pairs)


def _whole(hashes: np.ndarray) -> np.ndarray:
    """Row hash [N] of cell hashes [N, F], equal where rows agree in all columns. Unsigned sums
    wrap, so subtracting a column's hash removes it exactly."""
    keys: np.ndarray = hashes.sum(axis=1, dtype=np.uint64)
    return keys


def _pairs(keys: np.ndarray) -> float:
    """Number of pairs of rows with equal keys."""
    counts = np.unique(keys, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1)).sum()) / 2
