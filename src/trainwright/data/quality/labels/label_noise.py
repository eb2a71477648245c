"""Label noise: excess of unlikely labels over calibrated out-of-sample predictions.

Where classes overlap, an unlikely label is not an error: it occurs with its calibrated probability
p. Two models of unlikely labels are compared, with s the out-of-sample log-odds of a class:

    overlap:  P(label | s) = sigmoid(a s + b)
    noise:    P(label | s) = e + (1 - 2 e) sigmoid(a s + b)

Recalibration (a, b) corrects over- and underconfidence. Under overlap alone the probability
vanishes as the log-odds fall; under noise it stays at e, however unlikely the class. The likelihood
ratio tests for noise, the profile likelihood bounds its rate from below, and e / P is the
probability that a label comes from it. Labels drawn from probabilities of at most 0.89 everywhere,
or from nearly the same one everywhere, cannot be distinguished from noise; the former are never
called wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from trainwright.data.base.table import Floats, Integers

_LEAST_SLOPE, _LEAST_SLOPE_APART, _MOST_SLOPE = 0.5, 0.75, 3.0
"""Calibrated predictions have slope 1; with few rows, many columns and overlapping classes, 0.5."""

APART = 0.12
"""Classes are separable if the models' error rate is at most this."""

_SHIFTS = (-6.0, 6.0)
_LEAST, _MOST = 1e-7, 0.11
_CLIP = 1e-9
_FEWEST_UNLIKELY = 3
_MOST_PAIRS = 20_000
_STEP = 0.01
"""Bin width of the log-odds where there are more pairs."""

_LOWER_END = 2.71
"""Twice the difference of log-likelihoods at the lower end of a one-sided interval of 95%."""

_HALVINGS = 12

Bits = npt.NDArray[np.bool_]


@final
@dataclass(frozen=True, slots=True)
class LabelNoise:
    """Fitted label noise. `evidence` is twice the log-likelihood ratio of noise to overlap alone,
    `chances` [N] the probability that each label is wrong, `least` the lower confidence bound of
    the noise rate over its estimate.
    """

    evidence: float
    chances: Floats
    least: float


@final
@dataclass(frozen=True, slots=True)
class _Pairs:
    """(row, class) pairs of classes other than the likeliest: log-odds, whether the class is the
    label, and multiplicity."""

    log_odds: Floats
    is_label: Bits
    weights: Floats
    least_slope: float


@final
@dataclass(frozen=True, slots=True)
class _Fit:
    loss: float
    slope: float
    shift: float
    noise: float

    def rate(self, log_odds: Floats) -> Floats:
        """The probability of the label at these log-odds."""
        from scipy.special import expit

        overlap = expit(self.slope * log_odds + self.shift)
        rate: Floats = self.noise + (1 - 2 * self.noise) * overlap
        return rate


def label_noise(given: Integers, chances: Floats) -> LabelNoise:
    """Fit label noise to labels int64 [N] and out-of-sample probabilities [N, K]."""
    nothing = LabelNoise(0.0, np.zeros(len(given)), 0.0)
    clipped = np.clip(chances, _CLIP, 1 - _CLIP)
    log_odds = np.log(clipped) - np.log1p(-clipped)
    rows, classes = np.nonzero(np.arange(chances.shape[1]) != chances.argmax(axis=1)[:, None])
    is_label = given[rows] == classes
    if int(is_label.sum()) < _FEWEST_UNLIKELY:
        return nothing
    apart = float((chances.argmax(axis=1) != given).mean()) <= APART
    least_slope = _LEAST_SLOPE_APART if apart else _LEAST_SLOPE
    pairs = _paired(log_odds[rows, classes], is_label, least_slope)
    overlap, noisy = _fit(pairs, 0.0), _fit_noise(pairs)
    most = _MOST / (chances.shape[1] - 1)
    if noisy.noise > most or noisy.loss >= overlap.loss:
        return nothing
    wrong = np.zeros(len(given))
    unlikely = log_odds[rows[is_label], classes[is_label]]
    wrong[rows[is_label]] = noisy.noise / noisy.rate(unlikely)
    evidence = 2 * (overlap.loss - noisy.loss)
    return LabelNoise(evidence, wrong, _lower_end(pairs, noisy) / noisy.noise)


def _paired(log_odds: Floats, is_label: Bits, least_slope: float) -> _Pairs:
    """All pairs; a large number is binned by log-odds, each bin at its mean."""
    if len(log_odds) <= _MOST_PAIRS:
        return _Pairs(log_odds, is_label, np.ones(len(log_odds)), least_slope)
    steps = 2 * np.round(log_odds / _STEP).astype(np.int64) + is_label
    found, step = np.unique(steps, return_inverse=True)
    counts = np.bincount(step).astype(np.float64)
    return _Pairs(np.bincount(step, log_odds) / counts, found % 2 == 1, counts, least_slope)


def _fit_noise(pairs: _Pairs) -> _Fit:
    """Maximum-likelihood fit with noise, bracketed on a logarithmic grid of rates."""
    from scipy.optimize import minimize_scalar

    def loss(log_noise: float) -> float:
        return _fit(pairs, float(np.exp(log_noise))).loss

    usual = float(pairs.weights @ pairs.is_label / pairs.weights.sum())
    ends = np.log(_LEAST), np.log(min(0.3, 2 * usual))
    found = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-3})
    return _fit(pairs, float(np.exp(found.x)))


def _fit(pairs: _Pairs, noise: float) -> _Fit:
    """Maximum-likelihood recalibration at a given noise rate."""
    from scipy.optimize import minimize
    from scipy.special import expit

    s, y, w = pairs.log_odds, pairs.is_label, pairs.weights

    def loss(at: Floats) -> tuple[float, Floats]:
        overlap = expit(at[0] * s + at[1])
        rate = np.clip(noise + (1 - 2 * noise) * overlap, 1e-12, 1 - 1e-12)
        value = -float(w @ np.where(y, np.log(rate), np.log1p(-rate)))
        inner = -w * np.where(y, 1 / rate, -1 / (1 - rate))
        inner *= (1 - 2 * noise) * overlap * (1 - overlap)
        return value, np.array([inner @ s, inner.sum()])

    bounds = ((pairs.least_slope, _MOST_SLOPE), _SHIFTS)
    found = minimize(loss, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B", bounds=bounds)
    return _Fit(float(found.fun), float(found.x[0]), float(found.x[1]), noise)


def _lower_end(pairs: _Pairs, best: _Fit) -> float:
    """Lower confidence bound of the noise rate, by profile likelihood."""
    low, high = np.log(_LEAST), np.log(best.noise)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_open = 2 * (_fit(pairs, float(np.exp(middle))).loss - best.loss) <= _LOWER_END
        low, high = (low, middle) if is_open else (middle, high)
    return float(np.exp(high))
