"""Normal quantile function, without the slow import of scipy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trainwright.data.base.table import Floats

LEAST_SHARE = 1e-14
"""Shares nearer to 0 or 1 need another approximation."""

_TAIL = 0.13533528323661269189
"""exp(-2): the share below which the logarithm is taken."""

_ROOT = 2.50662827463100050242
"""The square root of 2 pi."""

_MIDDLE_OVER = (
    -5.99633501014107895267e1,
    9.80010754185999661536e1,
    -5.66762857469070293439e1,
    1.39312609387279679503e1,
    -1.23916583867381258016e0,
)
_MIDDLE_UNDER = (
    1.0,
    1.95448858338141759834e0,
    4.67627912898881538453e0,
    8.63602421390890590575e1,
    -2.25462687854119370527e2,
    2.00260212380060660359e2,
    -8.20372256168333339912e1,
    1.59056225126211695515e1,
    -1.18331621121330003142e0,
)
_TAIL_OVER = (
    4.05544892305962419923e0,
    3.15251094599893866154e1,
    5.71628192246421288162e1,
    4.40805073893200834700e1,
    1.46849561928858024014e1,
    2.18663306850790267539e0,
    -1.40256079171354495875e-1,
    -3.50424626827848203418e-2,
    -8.57456785154685413611e-4,
)
_TAIL_UNDER = (
    1.0,
    1.57799883256466749731e1,
    4.53907635128879210584e1,
    4.13172038254672030440e1,
    1.50425385692907503408e1,
    2.50464946208309415979e0,
    -1.42182922854787788574e-1,
    -3.80806407691578277194e-2,
    -9.33259480895457427372e-4,
)


def normal_places(shares: Floats) -> Floats:
    """Quantiles of the standard normal distribution; NaN stays NaN.

    The rational approximations of Cephes (Moshier 1989, `ndtri`), which scipy computes too: in 64
    bits the two differ by a few units in the last place of the tails, in 32 bits not at all.

    Args:
        shares: any shape, each from `LEAST_SHARE` to 1 - `LEAST_SHARE`.
    """
    places = np.array(shares, dtype=np.float64)
    upper = places > 1 - _TAIL
    lower = np.where(upper, 1 - places, places)
    tail = lower <= _TAIL
    middle = places[~tail] - 0.5
    square = middle * middle
    ratio = _polynomial(square, _MIDDLE_OVER) / _polynomial(square, _MIDDLE_UNDER)
    places[~tail] = (middle + middle * (square * ratio)) * _ROOT
    outer = np.sqrt(-2 * np.log(lower[tail]))
    inverse = 1 / outer
    ratio = _polynomial(inverse, _TAIL_OVER) / _polynomial(inverse, _TAIL_UNDER)
    far = outer - np.log(outer) / outer - inverse * ratio
    places[tail] = np.where(upper[tail], far, -far)
    return places


def _polynomial(at: Floats, factors: Sequence[float]) -> Floats:
    """By Horner's rule, the factor of the highest power first."""
    value = np.full_like(at, factors[0])
    for factor in factors[1:]:
        value = value * at + factor
    return value
