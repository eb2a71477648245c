"""Errors that do not depend on the unit of a target or series.

MASE: mean absolute scaled error (Hyndman and Koehler 2006, International Journal of Forecasting
22, doi:10.1016/j.ijforecast.2006.03.001): each absolute error divided by the mean absolute error of
the seasonal naive method on the training rows of its series, and the mean over all rows. Rows of
series that did not change there do not count.

sMAPE: symmetric mean absolute percentage error as the M4 competition defines it (Makridakis et al.
2020, International Journal of Forecasting 36, section 2.3): 200 |y - f| / (|y| + |f|), in percent
from 0 to 200; a zero that is forecast as 0 has no error.

Scaled pinball loss: that of the M5 competition (Makridakis et al. 2022, International Journal of
Forecasting 38, section 2.3), the mean pinball loss of the quantiles in the units of MASE.
"""

from __future__ import annotations

import math

import numpy as np

from trainwright.data.base.inputs import Floats
from trainwright.evaluation.metrics.predictions import Answers


def scaled_errors(answers: Answers) -> Floats:
    """Scaled absolute error of each row and whether it counts, [N, 2]; 0 where it does not."""
    return in_error_units(answers, np.abs(answers.truth - answers.values()))


def in_error_units(answers: Answers, values: Floats) -> Floats:
    """Values [N], each divided by the error that counts as 1, and whether it counts, [N, 2]; 0
    where it does not."""
    scale = answers.levels.error_scale
    if not len(scale):
        return np.zeros((len(answers), 2))
    counts = scale > 0
    scaled = values / np.where(counts, scale, 1.0)
    return np.stack([np.where(counts, scaled, 0.0), counts.astype(np.float64)], axis=1)


def pinballs(answers: Answers) -> Floats:
    """Mean pinball loss [N] of the quantiles of each row."""
    apart = answers.truth[:, None] - answers.scores
    levels = np.array(answers.quantiles)
    return np.asarray(np.maximum(levels * apart, (levels - 1) * apart).mean(axis=1))


def scaled_pinballs(answers: Answers) -> Floats:
    """Scaled pinball loss of each row and whether it counts, [N, 2]; 0 without quantiles."""
    if not answers.quantiles:
        return np.zeros((len(answers), 2))
    return in_error_units(answers, pinballs(answers))


def scaled_pinball(answers: Answers) -> float:
    """Mean scaled pinball loss; nan without quantiles, or if no series changed in its training
    rows."""
    total, counted = scaled_pinballs(answers).sum(axis=0)
    return float(total / counted) if counted else math.nan


def mase(answers: Answers) -> float:
    """Mean absolute scaled error; nan if no series changed in its training rows."""
    total, counted = scaled_errors(answers).sum(axis=0)
    return float(total / counted) if counted else math.nan


def percentage_errors(answers: Answers) -> Floats:
    """Symmetric percentage error [N] of each row."""
    apart = np.abs(answers.truth - answers.values())
    size = np.abs(answers.truth) + np.abs(answers.values())
    return np.asarray(200 * apart / np.where(size > 0, size, 1.0))


def smape(answers: Answers) -> float:
    """Mean symmetric percentage error."""
    return float(percentage_errors(answers).mean())


def share_errors(answers: Answers) -> Floats:
    """Absolute error as a share of the target of each row, and whether it counts, [N, 2]: a target
    of 0 has none."""
    counts = answers.truth != 0
    errors = np.abs(answers.truth - answers.values()) / np.where(counts, np.abs(answers.truth), 1.0)
    return np.stack([np.where(counts, errors, 0.0), counts.astype(np.float64)], axis=1)


def mape(answers: Answers) -> float:
    """Mean absolute error as a share of the target; nan if all targets are 0."""
    total, counted = share_errors(answers).sum(axis=0)
    return float(total / counted) if counted else math.nan
