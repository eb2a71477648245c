"""Isolation forest: rows that few random splits set apart from all others.

Liu, Ting and Zhou 2008, "Isolation forest", ICDM. Here h(x) are the `lengths` of a row's paths and
c(n) is `_usual_length`; the score of a row is 2 ** (-mean of h(x) / c(256)), 0.5 for usual rows,
near 1 for isolated ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.data.base.inputs import Floats, Integers

_SAMPLE = 256
_ROWS_AT_ONCE = 4096


def find_isolated_rows(values: Floats, least: float, trees: int) -> tuple[Integers, Floats]:
    """Rows of finite numbers [N, F] with a score above `least`, and their scores."""
    random = np.random.default_rng(0)
    size = min(_SAMPLE, len(values))
    usual = float(_usual_length(np.array([size]))[0])
    most = -math.log2(least) * usual * trees
    grown = [
        _grow(values[random.choice(len(values), size, replace=False)], random) for _ in range(trees)
    ]
    found, scores = [], []
    for start in range(0, len(values), _ROWS_AT_ONCE):
        rows = np.arange(start, min(start + _ROWS_AT_ONCE, len(values)))
        lengths = np.zeros(len(rows))
        for tree in grown:
            lengths += tree.lengths(values[rows])
            # Further trees only make paths longer.
            rows, lengths = rows[lengths < most], lengths[lengths < most]
        found.append(rows)
        scores.append(2.0 ** (-lengths / trees / usual))
    return np.concatenate(found), np.concatenate(scores)


@final
@dataclass(frozen=True, slots=True)
class _Tree:
    """The column and threshold of each node, level by level: row i goes from node n to node 2 n, or
    to 2 n + 1 if its value is above the threshold, which is infinite where a node is not split.
    `ends` are the path lengths within the last level, as a tree that grew on would have them."""

    columns: tuple[Integers, ...]
    thresholds: tuple[Floats, ...]
    ends: Floats

    def lengths(self, values: Floats) -> Floats:
        """Path lengths of rows [N, F]."""
        cells, width = values.ravel(), values.shape[1]
        rows, node = np.arange(len(values)) * width, np.zeros(len(values), dtype=np.int64)
        splits = np.zeros(len(values))
        for columns, thresholds in zip(self.columns, self.thresholds, strict=True):
            threshold = thresholds.take(node)
            splits += threshold < np.inf
            # Twice as fast as an index of rows and columns.
            is_above = cells.take(rows + columns.take(node)) > threshold
            node = 2 * node + is_above
        return splits + self.ends.take(node)


def _grow(values: Floats, random: np.random.Generator) -> _Tree:
    """A tree of a sample [S, F]: each split at a random place of a random column that varies."""
    levels: list[tuple[Integers, Floats]] = []
    rows, node = np.arange(len(values)), np.zeros(len(values), dtype=np.int64)
    for level in range(math.ceil(math.log2(len(values)))):
        order = np.argsort(node, kind="stable")
        nodes, starts = np.unique(node[order], return_index=True)
        low = np.minimum.reduceat(values[order], starts)
        spread = np.maximum.reduceat(values[order], starts) - low
        draws = np.where(spread > 0, random.random(spread.shape), -1.0)
        column = draws.argmax(axis=1)
        chosen = np.arange(len(nodes)), column
        threshold = low[chosen] + spread[chosen] * random.random(len(nodes))
        columns = np.zeros(1 << level, dtype=np.int64)
        thresholds = np.full(1 << level, np.inf)
        columns[nodes] = column
        thresholds[nodes] = np.where(draws[chosen] >= 0, threshold, np.inf)
        levels.append((columns, thresholds))
        node = 2 * node + (values[rows, columns[node]] > thresholds[node])
    ends = _usual_length(np.bincount(node, minlength=1 << len(levels)))
    return _Tree(tuple(one for one, _ in levels), tuple(one for _, one in levels), ends)


def _usual_length(rows: Integers) -> Floats:
    """Mean path length in a tree of so many rows, c(n) of the paper."""
    counts = np.maximum(rows, 2).astype(np.float64)
    harmonic = np.log(counts - 1) + np.euler_gamma
    length = 2 * harmonic - 2 * (counts - 1) / counts
    return np.where(rows > 2, length, np.where(rows == 2, 1.0, 0.0))
