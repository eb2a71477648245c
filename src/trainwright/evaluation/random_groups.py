"""Groups of units that are drawn together where there are too many units to draw one by one.

With G groups made at random, the spread of their sums estimates the spread that single units would
give, with a standard error of 1 / sqrt(2 G) of it (the random group method; Wolter 2007,
Introduction to Variance Estimation, chapter 2). What depends on each other stays together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.data.table import Floats, Integers

MOST_UNITS = 10_000
"""More units than this are drawn in groups."""

GROUPS = 2000
"""How many groups: the standard error of an interval's width is 1.6% of it."""


@final
@dataclass(frozen=True, slots=True)
class Groups:
    """The group [N] of each row, of so many groups."""

    of_row: Integers
    count: int

    def take(self, rows: Integers) -> Groups:
        """The groups of these rows."""
        return Groups(self.of_row[rows], self.count)

    def sums(self, columns: Floats) -> Floats:
        """The sum of each column [N, K] in each group, [G, K]; of one column [N], [G]."""
        if columns.ndim == 1:
            return np.bincount(self.of_row, columns, self.count).astype(np.float64)
        each = [np.bincount(self.of_row, column, self.count) for column in columns.T]
        return np.stack(each, axis=1)

    def sizes(self) -> Floats:
        """The rows of each group [G]."""
        return np.bincount(self.of_row, minlength=self.count).astype(np.float64)


def groups_of(units: Integers, seed: int) -> Groups:
    """Random groups of as many units each, but for one more in some; `units` [N] are of rows."""
    found, unit_of_row = np.unique(units, return_inverse=True)
    generator = np.random.default_rng([seed, 0x67726F75])
    group_of_unit = generator.permutation(len(found)) % GROUPS
    return Groups(group_of_unit[unit_of_row].astype(np.int64), GROUPS)
