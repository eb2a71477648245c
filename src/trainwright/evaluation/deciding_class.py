"""Whether a metric can have an interval at all, which the test rows alone say."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trainwright.data.base.table import Integers
from trainwright.evaluation.intervals.resampled_metrics import OF_ALL, OF_POSITIVES, SHARES
from trainwright.evaluation.metrics.resampling_units import count_units


class DecidingClass(NamedTuple):
    """The code of the class that an interval rests on, and its independent units."""

    code: int
    units: int


def deciding_class(
    metric: str, truth: Integers, units: Integers, positive: int, classes: int
) -> DecidingClass:
    """The positive class, or that of the classes which has the fewest units; -1 and all units for a
    metric that rests on all rows. `truth` [N] holds codes of `classes` classes."""
    if metric not in SHARES or metric in OF_ALL or not len(truth):
        return DecidingClass(-1, count_units(units))
    if metric in OF_POSITIVES and classes == 2:
        return DecidingClass(positive, count_units(units[truth == positive]))
    found = (
        DecidingClass(int(code), count_units(units[truth == code]))
        for code in np.unique(truth[truth >= 0])
    )
    return min(found, key=lambda one: one.units)
