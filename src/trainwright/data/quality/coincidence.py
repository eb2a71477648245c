"""Rows that agree in some columns: how many pairs, and how many of them chance makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from trainwright.data.table import Integers

MOSTLY = 0.6
"""Equal rows are coincidences where chance makes this share of their pairs."""

_HARDLY = 0.1
"""Rows that agree in all columns but one may be, where it makes this share."""


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

    def keys(self, *without: int) -> np.ndarray:
        """One number [N] for each row, equal where rows agree in all columns but these."""
        chosen = [at for at in range(self.hashes.shape[1]) if at not in without]
        # Sums of unsigned numbers wrap around, which keeps equal rows equal.
        keys: np.ndarray = self.hashes[:, chosen].sum(axis=1, dtype=np.uint64)
        return keys

    def by_chance(self, *without: int) -> float:
        """The share of the pairs of rows that agree in all columns but these which chance makes,
        because rows have few values.

        Pairs that agree in one column less, times the chance of agreeing in that one too (the sum
        of the squared shares of its values), are those that chance makes: more, where columns
        depend on each other, than if all were independent. The column that explains most counts.
        """
        pairs = _pairs(self.keys(*without))
        explained = 0.0
        for at, may in enumerate(self.explains):
            if not may or at in without:
                continue
            agree = 2 * _pairs(self.hashes[:, at]) / len(self.hashes) ** 2
            if agree < 1:
                others = _pairs(self.keys(*without, at)) - pairs
                explained = max(explained, others * agree / (1 - agree))
        return explained / pairs if pairs else 0.0

    def but_for_one(self, columns: Integers) -> Integers:
        """Pairs [P, 2] of rows, one after the other, that agree in all columns but one of
        `columns`, other than by chance."""
        found = [np.empty((0, 2), dtype=np.int64)]
        for at in columns.tolist():
            keys = self.keys(at)
            order = np.argsort(keys, kind="stable")
            same = keys[order[1:]] == keys[order[:-1]]
            if same.any() and self.by_chance(at) < _HARDLY:
                found.append(np.stack([order[:-1][same], order[1:][same]], axis=1))
        return np.concatenate(found)


def _pairs(keys: np.ndarray) -> float:
    """How many pairs of rows have the same key."""
    counts = np.unique(keys, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1)).sum()) / 2
