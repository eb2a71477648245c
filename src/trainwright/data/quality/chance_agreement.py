"""Rows that agree in some columns: how many pairs, and how many of them chance makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from trainwright.data.base.row_storage import spread_rows
from trainwright.data.base.table import Integers

MOSTLY = 0.6
"""Equal rows are coincidences where chance makes this share of their pairs."""

_HARDLY = 0.1
"""Rows that agree in all columns but one may be, where it makes this share."""

_MOST_ROWS, _MOST_COLUMNS = 50_000, 20
"""What chance makes is estimated from evenly spread rows and columns of more."""

_BESIDE = 5
"""The values of a column repeat where a row has on average so many others of its value."""


@final
@dataclass(frozen=True, slots=True)
class Agreement:
    """N rows of F columns: a 64-bit hash of every cell, uint64 [N, F], and which of the columns
    chance may explain: texts are no matter of chance, and the label of a copy may be another."""

    hashes: np.ndarray
    explains: tuple[bool, ...]

    @classmethod
    def of(cls, frame: pl.DataFrame, no_chance: frozenset[str]) -> Agreement:
        """The cells of a frame; `no_chance` are its columns of texts and labels."""
        # The column's number is in the seed: equal cells of two columns must not cancel out.
        columns = [series.hash(seed=at).to_numpy() for at, series in enumerate(frame)]
        return cls(
            np.stack(columns, axis=1), tuple(name not in no_chance for name in frame.columns)
        )

    def by_chance(self) -> bool:
        """Whether chance makes most of the pairs of equal rows, because rows have few values.

        Two columns must say so: one in which nearly all rows have the same value would excuse all
        copies for the two in which somebody changed it. Where only one column can, its values must
        repeat.
        """
        chance = _Chance.of(self)
        if len(chance.agree) == 1 and min(chance.agree.values()) * len(self.hashes) < _BESIDE:
            return False
        shares = chance.shares(_pairs(_whole(self.hashes)))
        return sum(share >= MOSTLY for share in shares) >= min(2, max(1, len(chance.agree)))

    def but_for_one(self, columns: Integers) -> Integers:
        """Pairs [P, 2] of rows, one after the other, that agree in all columns but one of
        `columns`, other than by chance."""
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
    """What chance makes, from evenly spread rows [n] of `hashes` and `whole`, and from evenly
    spread columns of more than one value: for each the chance that two rows agree in it. `scale`
    is how many pairs of all rows one pair stands for."""

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
        """The share of the `pairs` of rows that agree in all columns but these which chance makes,
        as each of the other columns explains it.

        Pairs that agree in one column less, times the chance of agreeing in that one too, are
        those that chance makes: more, where columns depend on each other, than if all were
        independent.
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
    """One number [N] for each row of hashes [N, F], equal where rows agree in all columns. Sums of
    unsigned numbers wrap around, and so do differences: what is taken away is gone."""
    keys: np.ndarray = hashes.sum(axis=1, dtype=np.uint64)
    return keys


def _pairs(keys: np.ndarray) -> float:
    """How many pairs of rows have the same key."""
    counts = np.unique(keys, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1)).sum()) / 2
