"""Errors in a numeric target, from out-of-sample predictions.

After Zhou, Mueller, Kumar, Wang and Lei 2023, "Detecting errors in a numerical response via any
regression model", arXiv:2305.16583: the residual |y - f(x)| of a row over its scale, here the upper
quartile of the residuals of rows with similar predictions, which wrong values barely affect.

Valid residuals can be heavy-tailed too; only an excess over the tail is wrong.
"""

from __future__ import annotations

import numpy as np

from trainwright.data.base.table import Floats
from trainwright.data.quality.columns.tail_fit import BeyondTail, beyond_tail

_FAR = 5.0
"""Minimum residual of a wrong number, in upper quartiles."""

_QUARTILE = 0.75
_LEAST_OF_ALL = 0.25
_ROWS_OF_A_PART = 100
_MOST_PARTS = 20


def wrong_numbers(given: Floats, guesses: Floats) -> BeyondTail:
    """Numbers [N] farther from their predictions [N] than the tail of the residuals explains."""
    return beyond_tail(_standardised(given, guesses), _FAR)


def unexplained(given: Floats, guesses: Floats) -> float:
    """Unexplained share: the median absolute residual over the median absolute deviation of the
    target; 1 for uninformative predictions."""
    spread = float(np.median(np.abs(given - np.median(given))))
    return float(np.median(np.abs(given - guesses))) / spread if spread else 1.0


def _standardised(given: Floats, guesses: Floats) -> Floats:
    """Residuals [N] over the upper quartile of the 5 % of rows with the closest predictions, at
    least a quarter of the upper quartile of all rows; for counts at least the standard deviation of
    a Poisson variable with a mean larger by one."""
    residuals = np.abs(given - guesses)
    usual = np.empty(len(residuals))
    counts = bool((given >= 0).all() and (given == np.floor(given)).all())
    parts = max(1, min(_MOST_PARTS, len(residuals) // _ROWS_OF_A_PART))
    for rows in np.array_split(np.argsort(guesses, kind="stable"), parts):
        usual[rows] = np.quantile(residuals[rows], _QUARTILE)
        if counts:
            usual[rows] = np.maximum(usual[rows], np.sqrt(1 + given[rows].mean()))
    usual = np.maximum(usual, _LEAST_OF_ALL * np.quantile(residuals, _QUARTILE))
    far: Floats = residuals / np.maximum(usual, 1e-300)
    return far
