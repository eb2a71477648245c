from __future__ import annotations

import numpy as np
import pytest

from trainwright.evaluation.metrics.predictions import count_units, number_units


@pytest.mark.parametrize(
    "units", [[], [4], [1, 1, 5, 9, 9], [9, 1, 5, 1], [-3, -3, 2], [0, 1, 2, 3], [3, 2, 1]]
)
def test_units_are_numbered_in_rising_order(units: list[int]) -> None:
    given = np.array(units, np.int64)
    found, numbers = np.unique(given, return_inverse=True)
    count, numbered = number_units(given)
    assert count == count_units(given) == len(found)
    np.testing.assert_array_equal(numbered, numbers)
    assert numbered.dtype == np.int64
