"""Rows of a table as the matrix that a library of trees reads."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from trainwright.data.base.table import Inputs, as_columns


def tree_matrix(inputs: Inputs) -> Any:
    """Numeric columns, text terms, then category codes: float32 [N, F + T + G]; codes below 2**24
    stay exact.

    With terms it is sparse, and every number and code is stored, zeros too: for a library that
    takes what is not stored as missing, only the terms that a text lacks are.
    """
    columns = as_columns(inputs)
    codes = columns.categories.astype(np.float32)
    if not columns.terms.width:
        return np.concatenate([columns.numeric, codes], axis=1)
    from scipy.sparse import csr_array, hstack

    blocks = [_stored(columns.numeric), columns.terms.matrix(), _stored(codes)]
    return csr_array(hstack(blocks, format="csr"))


def _stored(dense: npt.NDArray[np.float32]) -> Any:
    from scipy.sparse import csr_array

    rows, width = dense.shape
    places = np.tile(np.arange(width), rows)
    ends = np.arange(rows + 1) * width
    return csr_array((dense.reshape(-1), places, ends), shape=dense.shape)


def numeric_width(inputs: Inputs) -> int:
    """Columns of `tree_matrix` before the codes."""
    columns = as_columns(inputs)
    return int(columns.numeric.shape[1] + columns.terms.width)


def usable_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0))
