"""Calibration fitted on validation rows; of several methods the simplest that cross-validation
does not find worse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from trainwright.data.base.inputs import Floats, Integers
from trainwright.evaluation.calibration.fit_threshold import check_classes
from trainwright.evaluation.metrics.predictions import number_units
from trainwright.predictor.calibration import (
    NOT_CALIBRATED,
    Calibration,
    Knots,
    Method,
    logit,
)

FOLDS = 5
FEWEST_ISOTONIC = 1000
"""Rows from which on `auto` tries isotonic regression, which overfits fewer (Niculescu-Mizil and
Caruana 2005, section 4)."""

_LEAST = 1e-12
_MOST_TEMPERATURE = 10.0
"""And the inverse of the least: beyond, a model's probabilities say nothing."""
_CHOOSE = 0x63616C69

_ORDER: tuple[Method, ...] = ("none", "temperature", "platt", "isotonic")
"""From the simplest on: of equal losses the first counts."""


def fit_calibration(
    scores: Floats,
    truth: Integers,
    units: Integers,
    method: Method | Literal["auto"],
    seed: int,
) -> Calibration:
    """Fit to probabilities [N, C] of rows with true codes [N].

    `auto` compares the methods by their log loss in five folds of units, and takes the best, or no
    calibration if none is better.

    Raises:
        CannotCalibrate: a class has no such row.
    """
    if method == "none":
        return Calibration(rows=len(truth))
    check_classes(truth, scores.shape[1])
    tried: dict[str, float] = {}
    if method == "auto":
        tried = _cross_validated(scores, truth, units, seed)
        method = min(_ORDER, key=lambda one: tried.get(one, np.inf))
    fitted = _FITS[method](scores, truth)
    return replace(fitted, rows=len(truth), tried=tried)


def mean_log_loss(scores: Floats, truth: Integers) -> float:
    """Mean negative log-likelihood of the true classes."""
    chosen = scores[np.arange(len(truth)), truth]
    return float(-np.log(np.maximum(chosen, _LEAST)).mean())


def _cross_validated(
    scores: Floats, truth: Integers, units: Integers, seed: int
) -> dict[str, float]:
    """Log loss of each method in folds of units; folds whose fit lacks a class are skipped."""
    count, unit_of_row = number_units(units)
    draws = np.random.default_rng([seed, _CHOOSE])
    fold = draws.permutation(np.arange(count) % FOLDS)[unit_of_row]
    names = [name for name in _ORDER if name != "isotonic" or len(truth) >= FEWEST_ISOTONIC]
    losses: dict[str, list[float]] = {name: [] for name in names}
    for number in range(FOLDS):
        inside, outside = fold != number, fold == number
        known = np.bincount(truth[inside], minlength=scores.shape[1])
        if not known.min() or not outside.any():
            continue
        for name in names:
            calibrated = _FITS[name](scores[inside], truth[inside]).apply(scores[outside])
            losses[name].append(mean_log_loss(calibrated, truth[outside]))
    if not losses["none"]:
        return {"none": mean_log_loss(scores, truth)}
    return {name: float(np.mean(each)) for name, each in losses.items()}


def _none(_scores: Floats, _truth: Integers) -> Calibration:
    return NOT_CALIBRATED


def _temperature(scores: Floats, truth: Integers) -> Calibration:
    """The temperature of the least loss if two rows more were there, with a wrong answer each: of
    rows that are all right the best one would be 0. For two classes of equal size these are Platt's
    targets. The wrong answer is the likeliest class but the true one."""
    from scipy.optimize import minimize_scalar

    wrong = 2 / (len(truth) + 4)
    others = scores.copy()
    others[np.arange(len(truth)), truth] = -1
    rival = np.argmax(others, axis=1)

    def loss(log_temperature: float) -> float:
        calibrated = Calibration("temperature", float(np.exp(log_temperature))).apply(scores)
        right, turned = mean_log_loss(calibrated, truth), mean_log_loss(calibrated, rival)
        return (1 - wrong) * right + wrong * turned

    bounds = (-np.log(_MOST_TEMPERATURE), np.log(_MOST_TEMPERATURE))
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-6})
    return Calibration("temperature", float(np.exp(found.x)))


def _platt(scores: Floats, truth: Integers) -> Calibration:
    lines = [_line(logit(scores[:, code]), truth == code) for code in _mapped_classes(scores)]
    return Calibration("platt", lines=tuple(lines))


def _line(odds: Floats, hits: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """Slope and offset of Platt's sigmoid, with his targets: (hits + 1) / (hits + 2), and
    1 / (misses + 2). No slope is negative, which would reverse the ranking; the loss is convex, so
    that the best of those is 0."""
    from scipy.optimize import minimize

    count = float(hits.sum())
    targets = np.where(hits, (count + 1) / (count + 2), 1 / (len(hits) - count + 2))

    def loss(line: npt.NDArray[Any]) -> tuple[float, Floats]:
        logits = line[0] * odds + line[1]
        value = float((np.logaddexp(0, logits) - targets * logits).mean())
        rest = 1 / (1 + np.exp(-np.clip(logits, -700, 700))) - targets
        return value, np.array([(rest * odds).mean(), rest.mean()])

    found = minimize(loss, np.array([1.0, 0.0]), jac=True, method="BFGS")
    if found.x[0] < 0:
        return 0.0, float(logit(targets.mean()))
    return float(found.x[0]), float(found.x[1])


def _isotonic(scores: Floats, truth: Integers) -> Calibration:
    each = (_knots(scores[:, code], truth == code) for code in _mapped_classes(scores))
    return Calibration("isotonic", knots=tuple(each))


def _knots(probabilities: Floats, hits: npt.NDArray[np.bool_]) -> Knots:
    """Isotonic regression, kept off 0 and 1 by one row of each answer: 1 / (n + 2)."""
    from sklearn.isotonic import IsotonicRegression

    margin = 1 / (len(hits) + 2)
    fitted = IsotonicRegression(y_min=margin, y_max=1 - margin).fit(probabilities, hits)
    x, y = fitted.X_thresholds_, fitted.y_thresholds_
    return Knots(tuple(map(float, x)), tuple(map(float, y)))


def _mapped_classes(scores: Floats) -> range:
    return range(1, 2) if scores.shape[1] == 2 else range(scores.shape[1])


_FITS: Mapping[str, Callable[[Floats, Integers], Calibration]] = MappingProxyType(
    {"none": _none, "temperature": _temperature, "platt": _platt, "isotonic": _isotonic}
)
