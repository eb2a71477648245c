"""Which numbers of a target are wrong, from guesses of models that never saw them.

After Zhou, Mueller, Kumar, Wang and Lei 2023, "Detecting errors in a numerical response via any
regression model", arXiv:2305.16583: the residual |y - f(x)| of a row over how much it may vary,
which is taken here from the residuals of the rows whose guess is about the same: three of four are
smaller than their upper quartile, however far the wrong ones lie.

Honest residuals can have a heavy tail too; only an excess over it is wrong.
"""

from __future__ import annotations

import numpy as np

from trainwright.data.base.table import Floats
from trainwright.data.quality.tail_fit import BeyondTail, beyond_tail

_FAR = 5.0
"""Upper quartiles from the guess: the least that a wrong number is off."""

_QUARTILE = 0.75
_LEAST_OF_ALL = 0.25
_ROWS_OF_A_PART = 100
_MOST_PARTS = 20


def wrong_numbers(given: Floats, guesses: Floats) -> BeyondTail:
    """The numbers [N] that lie farther from their guess [N] than the tail of the others expects."""
    return beyond_tail(_standardised(given, guesses), _FAR)


def unexplained(given: Floats, guesses: Floats) -> float:
    """How much the guesses leave open: the median residual over the median distance of a number
    from the median of all. 1 for guesses that say nothing."""
    spread = float(np.median(np.abs(given - np.median(given))))
    return float(np.median(np.abs(given - guesses))) / spread if spread else 1.0


def _standardised(given: Floats, guesses: Floats) -> Floats:
    """Residuals [N] in upper quartiles: those of the twentieth of the rows whose guesses are most
    alike, but no less than a quarter of that of all rows; of counts no less than the deviation of
    a Poisson variable that is larger by one."""
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
