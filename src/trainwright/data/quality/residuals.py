"""Which numbers of a target are wrong, from guesses of models that never saw them.

After Zhou, Mueller, Kumar, Wang and Lei 2023, "Detecting errors in a numerical response via any
regression model", arXiv:2305.16583: the residual |y - f(x)| of a row over how much it may vary,
which is taken here from the residuals of the rows whose guess is about the same: three of four are
smaller than their upper quartile, however far the wrong ones lie.

Honest residuals can have a heavy tail too. The evidence is the excess over what the tail expects: a
power law, fitted to the residuals of moderate size, which falls more slowly than the tail of any
usual distribution (Hill 1975, truncated).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.data.table import Floats, Integers

_TAIL, _FAR = 2.5, 5.0
"""Upper quartiles from the guess: where the tail begins, and the least that a wrong number is."""

_FLATTEST, _STEEPEST = 1.6, 30.0
"""Exponents of tails: that of a log-normal variable, at the least."""

_MOST_HONEST = 0.5
_BY_CHANCE = 1e-4
"""Poisson probability of as many as there are."""

_ONE_SIDED = 1.645
_QUARTILE = 0.75
_LEAST_OF_ALL = 0.25
_ROWS_OF_A_PART = 100
_MOST_PARTS = 20


@final
@dataclass(frozen=True, slots=True)
class WrongNumbers:
    """Rows whose number is probably wrong, the farthest off first, and how many of them are at
    least."""

    rows: Integers
    least: int


def wrong_numbers(given: Floats, guesses: Floats) -> WrongNumbers:
    """The numbers [N] that lie so far from their guess [N] that at most half as many would by the
    tail of the others; none where there are not surely more."""
    from scipy.special import gammainc

    far = _standardised(given, guesses)
    order = np.argsort(-far, kind="stable")
    far = far[order]
    honest = _expected(far)
    beyond = np.arange(1, len(far) + 1)
    least = np.floor(beyond - honest - _ONE_SIDED * np.sqrt(honest))
    sure = (far > _FAR) & (honest <= _MOST_HONEST * beyond) & (least > 0)
    sure &= gammainc(beyond, honest) <= _BY_CHANCE
    if not sure.any():
        return WrongNumbers(np.empty(0, dtype=np.int64), 0)
    last = int(np.flatnonzero(sure)[-1])
    return WrongNumbers(order[: last + 1], int(least[last]))


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


def _expected(far: Floats) -> Floats:
    """How many residuals [N] the tail expects beyond each one: N_tail (far / tail) ** -exponent,
    with the least exponent that the residuals of moderate size leave open."""
    moderate = np.log(far[(far > _TAIL) & (far <= _FAR)] / _TAIL)
    exponent, deviation = _exponent(moderate, float(np.log(_FAR / _TAIL)))
    exponent = max(exponent - _ONE_SIDED * deviation, _FLATTEST)
    share = (_FAR / _TAIL) ** -exponent
    expected: Floats = len(moderate) / (1 - share) * (np.maximum(far, _TAIL) / _TAIL) ** -exponent
    return expected


def _exponent(logs: Floats, end: float) -> tuple[float, float]:
    """The exponent of a power law that is cut off at `end` from the logarithms of what lies before
    it, and its standard deviation."""
    from scipy.optimize import brentq

    if len(logs) < 2:
        return _STEEPEST, 0.0
    mean = float(logs.mean())

    def difference(exponent: float) -> float:
        return 1 / exponent - end / float(np.expm1(exponent * end)) - mean

    ends = 1e-3, _STEEPEST
    if difference(ends[0]) <= 0 or difference(ends[1]) >= 0:
        found = ends[0] if difference(ends[0]) <= 0 else ends[1]
    else:
        found = float(brentq(difference, *ends))
    grown = float(np.exp(found * end))
    information = 1 / found**2 - end**2 * grown / (grown - 1) ** 2
    return found, float(1 / np.sqrt(max(information, 1e-12) * len(logs)))
