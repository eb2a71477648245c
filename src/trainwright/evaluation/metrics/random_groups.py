"""Random groups of units, resampled as wholes where there are too many units.

The spread of the sums of G random groups estimates that of single units with a relative standard
error of 1 / sqrt(2 G) (the random group method; Wolter 2007, Introduction to Variance Estimation,
chapter 2). Dependent rows stay together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from trainwright.data.base.table import Floats, Integers

MOST_UNITS = 10_000
"""Unit limit for drawing single units."""

GROUPS = 2000
"""Number of groups: the relative standard error of an interval's width is 1.6%."""

_MOST_COLUMNS = 4096


@final
@dataclass(frozen=True, slots=True)
class RowGroups:
    """Group of each row [N]. Sums are cached, since metrics share them."""

    of_row: Integers
    count: int
    _kept: dict[int, tuple[Floats, Floats]] = field(default_factory=dict, repr=False, compare=False)

    def take(self, rows: Integers) -> RowGroups:
        """The groups of these rows."""
        return RowGroups(self.of_row[rows], self.count)

    def sums(self, columns: Floats) -> Floats:
        """Sums of columns [N, K] by group, [G, K]; of one column [N], [G]."""
        if id(columns) not in self._kept:
            self._kept[id(columns)] = (columns, self._sums(columns))
        return self._kept[id(columns)][1]

    def sizes(self) -> Floats:
        """Rows per group [G]."""
        if id(self.of_row) not in self._kept:
            sizes = np.bincount(self.of_row, minlength=self.count).astype(np.float64)
            self._kept[id(self.of_row)] = (sizes, sizes)
        return self._kept[id(self.of_row)][1]

    def _sums(self, columns: Floats) -> Floats:
        if columns.ndim == 1:
            return np.bincount(self.of_row, columns, self.count).astype(np.float64)
        each = [np.bincount(self.of_row, column, self.count) for column in columns.T]
        return np.stack(each, axis=1)


@final
@dataclass(frozen=True, slots=True)
class GroupSums:
    """A metric of weighted group sums: `use` maps those of each block, [G, K] or [G], to values
    [R]."""

    blocks: tuple[Floats, ...]
    use: Callable[..., Floats]

    def __call__(self, weights: Floats) -> Floats:
        """Values [R] for group weights [R, G]."""
        return self.use(*(weights @ block for block in self.blocks))


def weigh_groups(metrics: Sequence[GroupSums], weights: Floats) -> Iterator[Floats]:
    """Values [R] of each metric, batched into one matrix product: with few columns the product is
    bound by reading the weights [R, G]."""
    batch: list[GroupSums] = []
    columns = 0
    for metric in metrics:
        wide = sum(block.size // len(block) for block in metric.blocks)
        if batch and columns + wide > _MOST_COLUMNS:
            yield from _weigh_batch(batch, weights)
            batch, columns = [], 0
        batch.append(metric)
        columns += wide
    if batch:
        yield from _weigh_batch(batch, weights)


def _weigh_batch(metrics: Sequence[GroupSums], weights: Floats) -> Iterator[Floats]:
    blocks = {id(block): block for metric in metrics for block in metric.blocks}
    flat = [block.reshape(len(block), -1) for block in blocks.values()]
    sums = weights @ np.concatenate(flat, axis=1)
    ends = np.cumsum([block.shape[1] for block in flat])[:-1]
    parts = dict(zip(blocks, np.split(sums, ends, axis=1), strict=True))
    for metric in metrics:
        yield metric.use(*(_shaped(parts[id(block)], block) for block in metric.blocks))


def _shaped(sums: Floats, block: Floats) -> Floats:
    return sums[:, 0] if block.ndim == 1 else sums


def groups_of(unit_of_row: Integers, count: int, seed: int) -> RowGroups:
    """Random groups of equal numbers of units, up to one; `unit_of_row` [N] are the units, 0 to
    `count` - 1."""
    generator = np.random.default_rng([seed, 0x67726F75])
    group_of_unit = generator.permutation(count) % GROUPS
    return RowGroups(group_of_unit[unit_of_row].astype(np.int64), GROUPS)
