"""Label noise as an excess over what calibrated out-of-sample predictions expect.

Where classes overlap, a label that surprises a model is no error: with probability p the label is
the unlikely one, and calibrated predictions say so. Two models of how the labels of unlikely
classes come about are compared, s being the log-odds of a class for a row that did not train it:

    overlap:  P(label | s) = sigmoid(a s + b)
    noise:    P(label | s) = e + (1 - 2 e) sigmoid(a s + b)

Recalibration (a, b) takes care of models that are too sure or not sure enough. Overlap alone fades
as the log-odds fall, noise does not: its share e stays, however unlikely the class. The likelihood
ratio of the two says whether there is noise, its profile how much at least, and e / P how likely it
is that a label comes from it. Labels drawn from probabilities of at most 0.89 everywhere, or from
the same one nearly everywhere, cannot be told from noise; the former are never called wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from trainwright.data.base.table import Floats, Integers

_LEAST_SLOPE, _LEAST_SLOPE_APART, _MOST_SLOPE = 0.5, 0.75, 3.0
"""Calibrated predictions have a slope of 1; those of few rows of many columns, whose classes
overlap, half of it."""

APART = 0.12
"""Classes are apart where the models give another one to at most so many of the rows."""

_SHIFTS = (-6.0, 6.0)
_LEAST, _MOST = 1e-7, 0.11
_CLIP = 1e-9
_FEWEST_UNLIKELY = 3
_MOST_PAIRS = 20_000
_STEP = 0.01
"""Log-odds that are so near each other count as one where there are more pairs."""

_LOWER_END = 2.71
"""Twice the difference of log-likelihoods at the lower end of a one-sided interval of 95%."""

_HALVINGS = 12

Bits = npt.NDArray[np.bool_]


@final
@dataclass(frozen=True, slots=True)
class LabelNoise:
    """`evidence` is twice the log-likelihood ratio of noise to overlap alone; `chances` [N] say how
    likely each label is wrong, `least` is the lower end of the rate of noise over the rate itself.
    """

    evidence: float
    chances: Floats
    least: float


@final
@dataclass(frozen=True, slots=True)
class _Pairs:
    """Rows with a class that is not their likeliest: its log-odds, whether it is their label, and
    how many pairs one stands for."""

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
    """Label noise of labels int64 [N], given out-of-sample probabilities [N, K]."""
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
    """All pairs; very many of them in steps of their log-odds, each step by its mean."""
    if len(log_odds) <= _MOST_PAIRS:
        return _Pairs(log_odds, is_label, np.ones(len(log_odds)), least_slope)
    steps = 2 * np.round(log_odds / _STEP).astype(np.int64) + is_label
    found, step = np.unique(steps, return_inverse=True)
    counts = np.bincount(step).astype(np.float64)
    return _Pairs(np.bincount(step, log_odds) / counts, found % 2 == 1, counts, least_slope)


def _fit_noise(pairs: _Pairs) -> _Fit:
    """The best fit with noise: searched between rates on a grid of logarithms."""
    from scipy.optimize import minimize_scalar

    def loss(log_noise: float) -> float:
        return _fit(pairs, float(np.exp(log_noise))).loss

    usual = float(pairs.weights @ pairs.is_label / pairs.weights.sum())
    ends = np.log(_LEAST), np.log(min(0.3, 2 * usual))
    found = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-3})
    return _fit(pairs, float(np.exp(found.x)))


def _fit(pairs: _Pairs, noise: float) -> _Fit:
    """The recalibration of highest likelihood at this rate of noise."""
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
    """The least rate of noise that the likelihood leaves open."""
    low, high = np.log(_LEAST), np.log(best.noise)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_open = 2 * (_fit(pairs, float(np.exp(middle))).loss - best.loss) <= _LOWER_END
        low, high = (low, middle) if is_open else (middle, high)
    return float(np.exp(high))
