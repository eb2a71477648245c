"""Columns of numbers that are zero in most rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


@final
@dataclass(frozen=True, slots=True, eq=False)
class SparseColumns:
    """N rows of `width` columns in compressed sparse row format: row i has the `values` float32
    from `ends[i]` to `ends[i + 1]`, in the `columns` of the same range."""

    values: npt.NDArray[np.float32]
    columns: Integers
    ends: Integers
    width: int

    @classmethod
    def empty(cls, rows: int) -> SparseColumns:
        """No column at all."""
        nowhere = np.zeros(0, np.int64)
        return cls(np.zeros(0, np.float32), nowhere, np.zeros(rows + 1, np.int64), 0)

    def __len__(self) -> int:
        return len(self.ends) - 1

    def take(self, rows: Integers | slice) -> SparseColumns:
        """The given rows, in the given order."""
        return sparse_of(self.matrix()[rows])

    def dense(self) -> npt.NDArray[np.float32]:
        """[N, width]."""
        return np.asarray(self.matrix().toarray())

    def deviations(self) -> npt.NDArray[np.float64]:
        """The standard deviation of each column, zeros included, [width]."""
        values = self.values.astype(np.float64)
        sums = np.bincount(self.columns, values, minlength=self.width)
        squares = np.bincount(self.columns, values**2, minlength=self.width)
        rows = max(1, len(self))
        return np.asarray(np.sqrt(np.maximum(squares / rows - (sums / rows) ** 2, 0)))

    def matrix(self) -> Any:
        """The same as scipy's csr_array, which libraries of models read."""
        from scipy.sparse import csr_array

        return csr_array((self.values, self.columns, self.ends), shape=(len(self), self.width))


NO_TERMS = SparseColumns.empty(0)
"""Of rows without texts, however many."""


def sparse_of(matrix: Any) -> SparseColumns:
    """The columns of scipy's matrix in compressed sparse row format."""
    values, columns = matrix.data.astype(np.float32), matrix.indices.astype(np.int64)
    return SparseColumns(values, columns, matrix.indptr.astype(np.int64), matrix.shape[1])


def beside(blocks: Sequence[SparseColumns]) -> SparseColumns:
    """Columns of the same rows, from left to right."""
    if len(blocks) < 2:
        return blocks[0] if blocks else NO_TERMS
    from scipy.sparse import hstack

    return sparse_of(hstack([one.matrix() for one in blocks], format="csr"))


def below(blocks: Sequence[SparseColumns]) -> SparseColumns:
    """Rows of the same columns, one block after the other."""
    if not blocks or not blocks[0].width:
        return NO_TERMS
    from scipy.sparse import vstack

    return sparse_of(vstack([one.matrix() for one in blocks], format="csr"))
