"""Threshold of least cost between two classes: that of calibrated probabilities, or one fitted to
validation rows where these show that it costs less."""

from __future__ import annotations

import numpy as np

from trainwright.data.base.table import Floats, Integers
from trainwright.data.columns.error_costs import costs_of, least_expected
from trainwright.data.columns.target_kind import Costs
from trainwright.evaluation.calibration.fit_threshold import fit_threshold
from trainwright.evaluation.metrics.resampling_units import number_units
from trainwright.predictor.calibration import USUAL_THRESHOLD

_FOLDS = 5
_DEAL = 0x636F7374


def fit_cost_threshold(
    scores: Floats, truth: Integers, units: Integers, costs: Costs, positive: int, seed: int
) -> float:
    """Threshold of probabilities [N, 2] of rows with true codes and units [N]; 0.5 says that none
    is fitted, and the least expected cost decides.

    A threshold of few rows is noisy, and probabilities have one of their own (Elkan 2001, equation
    2). So one is fitted only if, fitted in five folds of units without each, it costs less on that
    fold by more than one standard error of the paired difference (Breiman et al. 1984, section
    3.4.3).

    Raises:
        CannotCalibrate: a class has no row.
    """
    fitted = fit_threshold(scores, truth, positive, "cost", costs)
    count, unit_of_row = number_units(units)
    draws = np.random.default_rng([seed, _DEAL])
    fold = draws.permutation(np.arange(count) % _FOLDS)[unit_of_row]
    saved = np.zeros(count)
    usual = costs_of(truth, least_expected(scores, costs), costs)
    for number in range(_FOLDS):
        inside, outside = fold != number, fold == number
        if len(np.unique(truth[inside])) < 2:
            return USUAL_THRESHOLD
        one = fit_threshold(scores[inside], truth[inside], positive, "cost", costs)
        said = np.where(scores[outside, positive] >= one, positive, 1 - positive)
        each = usual[outside] - costs_of(truth[outside], said, costs)
        saved += np.bincount(unit_of_row[outside], each, count)
    error = float(saved.std(ddof=1)) / np.sqrt(count) if count > 1 else np.inf
    return fitted if saved.mean() > error else USUAL_THRESHOLD
