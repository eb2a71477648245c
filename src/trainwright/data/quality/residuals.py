"""Which numbers of a target are wrong, from guesses of models that never saw them.

After Zhou, Mueller, Kumar, Wang and Lei 2023, "Detecting errors in a numerical response via any
regression model", arXiv:2305.16583: the residual |y - f(x)| of a row over how much it may vary,
which is taken here from the residuals of the rows whose guess is about the same: three of four are
smaller than their upper quartile, however far the wrong ones lie.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trainwright.data.table import Floats

_TIMES = 5.0
_QUARTILE = 0.75
_LEAST_OF_ALL = 0.25
_ROWS_OF_A_PART = 100
_MOST_PARTS = 20


def wrong_numbers(given: Floats, guesses: Floats) -> npt.NDArray[np.bool_]:
    """Which of the numbers [N] lie more than 5 upper quartiles of the residuals from their guess
    [N]: those of the twentieth of the rows whose guesses are most alike, but no less than a quarter
    of that of all rows."""
    residuals = np.abs(given - guesses)
    usual = np.empty(len(residuals))
    parts = max(1, min(_MOST_PARTS, len(residuals) // _ROWS_OF_A_PART))
    for rows in np.array_split(np.argsort(guesses, kind="stable"), parts):
        usual[rows] = np.quantile(residuals[rows], _QUARTILE)
    usual = np.maximum(usual, _LEAST_OF_ALL * np.quantile(residuals, _QUARTILE))
    wrong: npt.NDArray[np.bool_] = residuals > _TIMES * usual
    return wrong


def unexplained(given: Floats, guesses: Floats) -> float:
    """How much the guesses leave open: the median residual over the median distance of a number
    from the median of all. 1 for guesses that say nothing."""
    spread = float(np.median(np.abs(given - np.median(given))))
    return float(np.median(np.abs(given - guesses))) / spread if spread else 1.0
