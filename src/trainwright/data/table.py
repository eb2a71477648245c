"""Encoded rows: what a model eats, and the parts of the data that were divided for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
PartName = Literal["train", "validation", "test"]


@dataclass(frozen=True, slots=True)
class Inputs:
    """Encoded feature columns of N rows.

    `numeric` is float32 [N, F] (NaN only where the plan imputes nothing); `categories` is int64
    [N, G], each entry a code below the column's cardinality.
    """

    numeric: npt.NDArray[np.float32]
    categories: Integers

    def __len__(self) -> int:
        return len(self.numeric)

    def take(self, rows: Integers) -> Inputs:
        """The given rows, in the given order."""
        return Inputs(self.numeric[rows], self.categories[rows])


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that were given one purpose.

    `frame` holds the typed columns before encoding (for slices and for people), `target` int64
    class codes [N] or float64 values [N], `rows` the 0-based positions in the source file, `units`
    int64 [N] the number of the independent unit each row belongs to (its group under a group
    split, a stretch of time under a time split, else itself): the bootstrap draws units.
    """

    name: PartName
    frame: pl.DataFrame
    inputs: Inputs
    target: npt.NDArray[Any]
    rows: Integers
    units: Integers

    def __len__(self) -> int:
        return len(self.rows)
