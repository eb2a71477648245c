"""Values in excess of a fitted power-law tail.

Valid values can be heavy-tailed, so distance alone is no evidence of an error; an excess is. A
power law fitted at moderate distances gives the expected number beyond (Hill 1975, "A simple
general approach to inference about the tail of a distribution", doi:10.1214/aos/1176343247,
truncated at the far distance), a conservative tail: it decays more slowly than those of the usual
distributions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.data.base.table import Floats, Integers

_TIMES = 2.0
"""The tail starts at the far distance over this."""

_FLATTEST, _STEEPEST = 1.6, 30.0
"""Bounds of the tail exponent; the lowest is that of a log-normal variable."""

_MOST_HONEST = 0.5
_BY_CHANCE = 1e-4
"""Maximum Poisson probability of the observed count."""

_ONE_SIDED = 1.645


@final
@dataclass(frozen=True, slots=True)
class BeyondTail:
    """Values beyond the tail, farthest first, and a lower bound of their number."""

    rows: Integers
    least: int


def beyond_tail(far: Floats, end: float) -> BeyondTail:
    """Distances [N] beyond `end` that occur at least twice as often as the tail predicts, and
    significantly so; NaN never does."""
    from scipy.special import gammainc

    far = np.nan_to_num(far)
    order = np.argsort(-far, kind="stable")
    far = far[order]
    honest = _expected(far, end)
    beyond = np.arange(1, len(far) + 1)
    least = np.floor(beyond - honest - _ONE_SIDED * np.sqrt(honest))
    sure = (far > end) & (honest <= _MOST_HONEST * beyond) & (least > 0)
    sure &= gammainc(beyond, honest) <= _BY_CHANCE
    if not sure.any():
        return BeyondTail(np.empty(0, dtype=np.int64), 0)
    last = int(np.flatnonzero(sure)[-1])
    return BeyondTail(order[: last + 1], int(least[last]))


def _expected(far: Floats, end: float) -> Floats:
    """Expected number [N] of values beyond each one: N_tail (far / start) ** -exponent, at the
    lower confidence bound of the exponent."""
    start = end / _TIMES
    moderate = np.log(far[(far > start) & (far <= end)] / start)
    exponent, deviation = _exponent(moderate, float(np.log(_TIMES)))
    exponent = max(exponent - _ONE_SIDED * deviation, _FLATTEST)
    share = _TIMES**-exponent
    expected: Floats = len(moderate) / (1 - share) * (np.maximum(far, start) / start) ** -exponent
    return expected


def _exponent(logs: Floats, end: float) -> tuple[float, float]:
    """Exponent of a power law truncated at `end`, from log distances below it, and its standard
    error."""
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
