"""Conformal calibration of predicted quantiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trainwright.data.base.inputs import Floats, Integers

MOST_WIDENED, MOST_OF_ONE_WINDOW = 1.3, 2.0
"""More costs more in the interval score of simulated series than its coverage is worth; less than
two windows show nothing of how windows differ."""


def fewest_rows(quantiles: Sequence[float]) -> int:
    """Rows below which the outermost quantile has no finite shift: (n + 1) q and (n + 1) (1 - q)
    must reach 1."""
    tail = min(min(one, 1 - one) for one in quantiles)
    return math.ceil(1 / tail - 1e-9) - 1


def conformal_shifts(
    scores: Floats, truth: npt.NDArray[Any], quantiles: Sequence[float]
) -> tuple[float, ...]:
    """What is added to each quantile of `scores` [N, K], fitted on rows with values [N] that did
    not train the model: split conformal quantile regression with a shift a tail (Romano et al.
    2019, arXiv:1905.03222, theorem 2).

    Of the sorted residuals value - quantile, an upper quantile q takes the ceil((N + 1) q)-th and a
    lower one the floor((N + 1) q)-th: a new row, exchangeable with these, lies above the shifted
    upper quantile with probability at most 1 - q, and below the lower one with at most q. The
    median stays.
    """
    count = len(truth)
    assert count >= fewest_rows(quantiles), "enough rows"
    shifts = []
    for at, quantile in enumerate(quantiles):
        residuals = np.sort(truth - scores[:, at])
        place = (count + 1) * quantile
        # 1e-9: a product such as 20 x 0.95 may be above 19 by rounding.
        rank = math.ceil(place - 1e-9) if quantile > 0.5 else math.floor(place + 1e-9)
        shifts.append(0.0 if quantile == 0.5 else float(residuals[rank - 1]))
    return tuple(shifts)


def conformal_shifts_by_step(
    scores: Floats, truth: npt.NDArray[Any], quantiles: Sequence[float], steps: Integers
) -> tuple[tuple[float, ...], ...]:
    """What is added to each quantile of the rows of each step [N], from step 1 on: a forecast far
    ahead misses by more than a near one. A step without enough rows takes those of the nearest
    steps, too.

    Overlapping forecasts of one time are no independent rows, and the next years may be less calm
    than the last. So `conformal_shifts` may widen an interval, never narrow it, and the
    distance of a bound from the median grows by the factor of Student's prediction interval for as
    many windows as do not overlap, up to a limit.
    """
    # Imported here since few runs calibrate forecasts.
    from scipy.stats import norm, t

    levels, horizon, fewest = np.array(quantiles), int(steps.max()), fewest_rows(quantiles)
    windows = len(truth) / horizon**2 + 1
    student = math.sqrt(1 + 1 / windows) * t.ppf(levels.max(), windows - 1) / norm.ppf(levels.max())
    shifts = []
    for step in range(1, horizon + 1):
        apart = np.abs(steps - step)
        rows = np.flatnonzero(apart <= np.partition(apart, fewest - 1)[fewest - 1])
        reach = (scores[rows] - scores[rows][:, levels == 0.5]).mean(axis=0)
        wider = reach + conformal_shifts(scores[rows], truth[rows], quantiles)
        wider *= min(MOST_WIDENED if windows >= 2 else MOST_OF_ONE_WINDOW, float(student))
        outer = np.where(levels < 0.5, np.minimum(wider, reach), np.maximum(wider, reach))
        shifts.append(tuple(map(float, outer - reach)))
    return tuple(shifts)
