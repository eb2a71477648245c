"""Conformal calibration of predicted quantiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trainwright.data.base.inputs import Floats, Integers


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
    """`conformal_shifts` of the rows of each step [N], from step 1 on: a forecast far ahead misses
    by more than a near one. Each step has enough rows."""
    each = (np.flatnonzero(steps == step) for step in range(1, int(steps.max()) + 1))
    return tuple(conformal_shifts(scores[rows], truth[rows], quantiles) for rows in each)
