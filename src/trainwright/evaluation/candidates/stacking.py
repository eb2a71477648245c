"""Stacking: a second level fitted to scores of rows that no candidate was trained on (Wolpert 1992,
doi:10.1016/S0893-6080(05)80023-1), with weights that are not negative (Breiman 1996,
doi:10.1007/BF00117832)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_never, final

import numpy as np
import numpy.typing as npt

from trainwright.contract.sections.metric import Metric
from trainwright.data.base.inputs import Floats
from trainwright.data.subsample import drawn_rows
from trainwright.evaluation.candidates.compare_candidates import ComparedRows
from trainwright.evaluation.candidates.greedy_ensemble import SelectedEnsemble, parts_of
from trainwright.predictor.ensemble_scorer import Link, SecondLevel, from_linear, to_linear

_MOST_ROWS = 50_000
_SPREAD = 0.3
"""Standard deviation of the prior of a weight around that of the weighted mean."""

_LEAST = 1e-6


@final
@dataclass(frozen=True, slots=True)
class FittedStack:
    """A second level, and what it scores on the rows that it was fitted to. `scores` [N, C] or [N,
    1] are cross-fitted: those of a row come from a level that was fitted without its part of the
    rows."""

    level: SecondLevel
    value_on_fitted: float
    scores: Floats


def stack_candidates(
    scores: Mapping[str, Floats],
    rows: ComparedRows,
    metric: Metric,
    link: Link,
    selected: SelectedEnsemble,
    seed: int,
) -> FittedStack:
    """Fit a second level to all rows, and cross-fit it over the folds of the rows, or over five
    parts of their units; `selected` is the weighted mean of the same scores and parts."""
    level = fit_second_level(scores, rows, link, selected.weights, seed)
    parts = parts_of(rows, seed)
    fitted = np.zeros_like(next(iter(scores.values())))
    for part, prior in selected.by_part.items():
        inside, outside = np.flatnonzero(parts == part), np.flatnonzero(parts != part)
        others = {name: each[outside] for name, each in scores.items()}
        one = fit_second_level(others, rows.take(outside), link, prior, seed)
        fitted[inside] = one.combine({name: each[inside] for name, each in scores.items()})
    return FittedStack(level, rows.value(level.combine(scores), metric), fitted)


def fit_second_level(
    scores: Mapping[str, Floats],
    rows: ComparedRows,
    link: Link,
    prior: Mapping[str, float],
    seed: int,
) -> SecondLevel:
    """The largest posterior probability of weights of at least 0 and intercepts: of classes the
    likelihood, of counts that of Poisson, of numbers that of normal errors; the prior of a weight
    is normal around that of a weighted mean of the candidates, that of an intercept around 0. Of
    more than 50,000 rows so many are drawn."""
    if len(rows) > _MOST_ROWS:
        drawn = drawn_rows(len(rows), _MOST_ROWS, seed)
        rows, scores = rows.take(drawn), {name: one[drawn] for name, one in scores.items()}
    inputs = np.stack([to_linear(link, one) for one in scores.values()])
    loss = _loss_of(link, inputs, rows.truth)
    centre = np.array([prior.get(name, 0.0) for name in scores])
    weights, intercept = _solve(loss, centre, inputs.shape[2])
    weights = np.where(weights > _LEAST, weights, 0.0)
    kept = {name: float(one) for name, one in zip(scores, weights, strict=True) if one}
    if not kept:
        return SecondLevel(link, (0.0,) * inputs.shape[2], prior)
    return SecondLevel(link, tuple(map(float, loss.intercept(weights, intercept))), kept)


def _loss_of(link: Link, inputs: Floats, truth: npt.NDArray[Any]) -> Loss:
    match link:
        case "softmax":
            return _Classes(inputs, truth)
        case "log":
            return _Counts(inputs, truth)
        case "identity":
            return _Numbers(inputs, truth)
        case _:
            assert_never(link)


def _solve(loss: Loss, centre: Floats, width: int) -> tuple[Floats, Floats]:
    """Weights [M] and intercepts [width] of the least loss and prior, by L-BFGS-B."""
    from scipy.optimize import minimize

    count = len(centre)
    start = np.concatenate([centre, np.zeros(width)])
    strength = loss.noise / (_SPREAD**2 * loss.rows)

    def value(point: Floats) -> tuple[float, Floats]:
        apart = point - start
        found, slope = loss.value(point[:count], point[count:])
        return found + strength / 2 * float(apart @ apart), slope + strength * apart

    bounds = [(0.0, None)] * count + [(None, None)] * width
    found = minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return found.x[:count], found.x[count:]


class Loss(ABC):
    """Mean loss of a second level on rows, with its slope. `inputs` are [M, N, C] on the linear
    scale; `noise` is the variance in which the loss counts an error."""

    noise = 1.0

    def __init__(self, inputs: Floats, truth: npt.NDArray[Any]) -> None:
        self._inputs = inputs
        self._truth = truth
        self.rows = len(truth)

    def value(self, weights: Floats, intercept: Floats) -> tuple[float, Floats]:
        """The loss, and its slope along weights and intercepts."""
        linear = np.tensordot(weights, self._inputs, 1) + intercept
        found, errors = self._errors(linear)
        slope = np.tensordot(self._inputs, errors, 2) / self.rows
        return found, np.concatenate([slope, errors.sum(axis=0) / self.rows])

    def intercept(self, weights: Floats, intercept: Floats) -> Floats:  # noqa: ARG002
        """Intercepts on the scale of the candidates' scores."""
        return intercept

    @abstractmethod
    def _errors(self, linear: Floats) -> tuple[float, Floats]:
        """Mean loss, and the slope of each row's along `linear` [N, C]."""


@final
class _Classes(Loss):
    """Negative log-likelihood of the true classes."""

    def _errors(self, linear: Floats) -> tuple[float, Floats]:
        chances = from_linear("softmax", linear)
        rows = np.arange(self.rows)
        value = -float(np.log(np.maximum(chances[rows, self._truth], 1e-300)).mean())
        chances[rows, self._truth] -= 1
        return value, chances


@final
class _Counts(Loss):
    """Poisson likelihood of counts, without what does not depend on the rates."""

    def _errors(self, linear: Floats) -> tuple[float, Floats]:
        rates, counts = from_linear("log", linear), self._truth[:, None]
        return float((rates - counts * linear).mean()), rates - counts


@final
class _Numbers(Loss):
    """Half the squared error, in variances of the truth; the noise is the best candidate's."""

    def __init__(self, inputs: Floats, truth: npt.NDArray[Any]) -> None:
        self._mean, self._spread = float(truth.mean()), float(truth.std()) or 1.0
        super().__init__((inputs - self._mean) / self._spread, (truth - self._mean) / self._spread)
        errors = ((self._inputs[:, :, 0] - self._truth) ** 2).mean(axis=1)
        self.noise = max(float(errors.min()), 1e-6)

    def _errors(self, linear: Floats) -> tuple[float, Floats]:
        apart = linear - self._truth[:, None]
        return float((apart**2).mean() / 2), apart

    def intercept(self, weights: Floats, intercept: Floats) -> Floats:
        """Without the mean that the candidates' scores were freed from."""
        return np.asarray(self._mean * (1 - weights.sum()) + self._spread * intercept)
