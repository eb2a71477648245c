"""Independent units of rows, which intervals resample."""

from __future__ import annotations

import numpy as np

from trainwright.data.base.table import Integers


def number_units(units: Integers) -> tuple[int, Integers]:
    """Number of distinct units, and the ascending code [N] of each row's unit. Sorted units are not
    sorted again."""
    rises = units[1:] > units[:-1]
    if bool((rises | (units[1:] == units[:-1])).all()) and len(units):
        numbers = np.concatenate([[0], np.cumsum(rises)]).astype(np.int64)
        return int(numbers[-1]) + 1, numbers
    found, numbers = np.unique(units, return_inverse=True)
    return len(found), numbers.astype(np.int64)


def count_units(units: Integers) -> int:
    """Number of distinct units."""
    return number_units(units)[0]
