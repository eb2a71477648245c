"""The independent units among rows: what intervals count and draw."""

from __future__ import annotations

import numpy as np

from trainwright.data.base.table import Integers


def number_units(units: Integers) -> tuple[int, Integers]:
    """How many different units there are, and the number [N] of each row's unit among them, in
    rising order. Units that already stand in order are not sorted again."""
    rises = units[1:] > units[:-1]
    if bool((rises | (units[1:] == units[:-1])).all()) and len(units):
        numbers = np.concatenate([[0], np.cumsum(rises)]).astype(np.int64)
        return int(numbers[-1]) + 1, numbers
    found, numbers = np.unique(units, return_inverse=True)
    return len(found), numbers.astype(np.int64)


def count_units(units: Integers) -> int:
    """How many different units there are."""
    return number_units(units)[0]
