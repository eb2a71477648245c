"""The metrics over many weightings of the same rows at once, for the bootstrap.

A resample is a weight for each row: how often it was drawn. Each metric is prepared once for its
rows (sorted, binned) and then takes weights [R, N] to values [R], equal to scikit-learn's value on
the rows repeated that often; nan where that value is not defined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, final

import numpy as np
import numpy.typing as npt

from trainwright.contract.metric import Metric
from trainwright.data.table import Floats, Integers
from trainwright.evaluation.answers import Answers
from trainwright.evaluation.metrics import (
    CALIBRATION_BINS,
    calibration_bins,
    calibration_pairs,
    present_classes,
)

Weighted = Callable[[Floats], Floats]
"""Weights [R, N] to values [R]."""

Prepare = Callable[[Answers, Metric], Weighted]


def weigh(name: str, answers: Answers, section: Metric) -> Weighted:
    """The metric as a function of row weights, prepared for these rows."""
    return WEIGHTED[name](answers, section)


def _ratio(above: Floats, below: Floats) -> Floats:
    """`above / below`, nan where `below` is 0."""
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below != 0)


def _ratio_or_zero(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.zeros_like(above), where=below != 0)


def _mean(values: Floats) -> Weighted:
    def compute(weights: Floats) -> Floats:
        return _ratio(weights @ values, weights.sum(axis=1))

    return compute


def _one_hot(codes: npt.NDArray[Any], classes: int) -> Floats:
    return np.asarray(codes[:, None] == np.arange(classes), np.float64)


@dataclass(frozen=True, slots=True)
class _Counts:
    """Weighted counts of each class [R, C]: rightly chosen, true, chosen."""

    right: Floats
    true: Floats
    chosen: Floats

    def f1(self) -> Floats:
        return _ratio_or_zero(2 * self.right, self.true + self.chosen)


def _counted(use: Callable[[_Counts], Floats]) -> Prepare:
    def prepare(answers: Answers, _: Metric) -> Weighted:
        classes = answers.classes
        true = _one_hot(answers.truth, classes)
        chosen = _one_hot(answers.chosen(), classes)
        columns = np.concatenate([true * chosen, true, chosen], axis=1)

        def compute(weights: Floats) -> Floats:
            counts = weights @ columns
            return use(
                _Counts(
                    counts[:, :classes], counts[:, classes : 2 * classes], counts[:, 2 * classes :]
                )
            )

        return compute

    return prepare


def _balanced_accuracy(counts: _Counts) -> Floats:
    occurs = (counts.true > 0).sum(axis=1).astype(np.float64)
    return _ratio(_ratio_or_zero(counts.right, counts.true).sum(axis=1), occurs)


def _f1_macro(counts: _Counts) -> Floats:
    occurs = (counts.true + counts.chosen > 0).sum(axis=1).astype(np.float64)
    return _ratio(counts.f1().sum(axis=1), occurs)


def _f1_weighted(counts: _Counts) -> Floats:
    return _ratio((counts.f1() * counts.true).sum(axis=1), counts.true.sum(axis=1))


def _of_positive(use: Callable[[_Counts], Floats]) -> Prepare:
    def prepare(answers: Answers, section: Metric) -> Weighted:
        def select(counts: _Counts) -> Floats:
            values = use(counts)[:, answers.positive]
            return np.where(counts.true[:, answers.positive] > 0, values, np.nan)

        return _counted(select)(answers, section)

    return prepare


@final
class _Ranked:
    """Rows in falling order of their score, and where each group of equal scores ends."""

    def __init__(self, truth: npt.NDArray[np.bool_], scores: Floats) -> None:
        order = np.argsort(-scores, kind="stable").astype(np.int64)
        self._order: Integers = order
        self._positive = truth[order].astype(np.float64)
        falls = np.flatnonzero(np.diff(scores[order]))
        self._ends: Integers = np.append(falls, len(order) - 1).astype(np.int64)

    def counts(self, weights: Floats) -> tuple[Floats, Floats]:
        """Weights of the positives and of all rows down to each distinct score, [R, D] each."""
        ranked = np.take(weights, self._order, axis=1)
        total = np.cumsum(ranked, axis=1)
        np.multiply(ranked, self._positive, out=ranked)
        found = np.cumsum(ranked, axis=1, out=ranked)
        if len(self._ends) == len(self._order):
            return found, total
        return np.take(found, self._ends, axis=1), np.take(total, self._ends, axis=1)


def _auc_of(found: Floats, total: Floats) -> Floats:
    """Area under the ROC curve by trapezoids, which count a tie as half."""
    missed = total - found
    twice = found[:, 0] * missed[:, 0]
    widths = missed[:, 1:] - missed[:, :-1]
    twice += np.einsum("rd,rd->r", widths, found[:, 1:])
    twice += np.einsum("rd,rd->r", widths, found[:, :-1])
    return _ratio(twice, 2 * found[:, -1] * missed[:, -1])


def _average_precision_of(found: Floats, total: Floats) -> Floats:
    """Sum over thresholds of the gain in recall times the precision."""
    precision = _ratio_or_zero(found, total)
    area = found[:, 0] * precision[:, 0]
    area += np.einsum("rd,rd->r", found[:, 1:] - found[:, :-1], precision[:, 1:])
    return _ratio(area, found[:, -1])


def _ranked(use: Callable[[Floats, Floats], Floats]) -> Prepare:
    def prepare(answers: Answers, _: Metric) -> Weighted:
        if answers.classes == 2:
            both = [(answers.is_positive(), answers.positive_scores())]
        else:
            both = [
                (np.asarray(answers.truth == code), answers.scores[:, code])
                for code in present_classes(answers)
            ]
        each = [_Ranked(truth, scores) for truth, scores in both]

        def compute(weights: Floats) -> Floats:
            values = np.stack([use(*ranked.counts(weights)) for ranked in each])
            return np.asarray(values.mean(axis=0))

        return compute

    return prepare


def _precision_at_recall(answers: Answers, section: Metric) -> Weighted:
    ranked = _Ranked(answers.is_positive(), answers.positive_scores())

    def compute(weights: Floats) -> Floats:
        found, total = ranked.counts(weights)
        positives = found[:, -1:]
        precision = _ratio_or_zero(found, total)
        reached = _ratio_or_zero(found, np.broadcast_to(positives, found.shape)) >= section.recall
        best = np.where(reached, precision, 0.0).max(axis=1)
        return np.where(positives[:, 0] > 0, best, np.nan)

    return compute


def _log_loss(answers: Answers, _: Metric) -> Weighted:
    least = float(np.finfo(np.float64).eps)
    given = answers.scores[np.arange(len(answers)), answers.truth]
    return _mean(-np.log(np.clip(given, least, 1 - least)))


def _brier(answers: Answers, _: Metric) -> Weighted:
    if answers.classes == 2:
        return _mean((answers.positive_scores() - answers.is_positive()) ** 2)
    apart = answers.scores - _one_hot(answers.truth, answers.classes)
    return _mean((apart**2).sum(axis=1))


def _calibration_error(answers: Answers, _: Metric) -> Weighted:
    confidence, hit = calibration_pairs(answers)
    gaps = _one_hot(calibration_bins(confidence), CALIBRATION_BINS) * (hit - confidence)[:, None]

    def compute(weights: Floats) -> Floats:
        return _ratio(np.abs(weights @ gaps).sum(axis=1), weights.sum(axis=1))

    return compute


def _rmse(answers: Answers, _: Metric) -> Weighted:
    squared = _mean((answers.truth - answers.values()) ** 2)
    return lambda weights: np.sqrt(squared(weights))


def _r2(answers: Answers, _: Metric) -> Weighted:
    # Centred first: the variance as a difference of two sums loses digits far from 0.
    centred = answers.truth - answers.truth.mean() if len(answers) else answers.truth
    columns = np.stack(
        [(answers.truth - answers.values()) ** 2, centred, centred**2, np.ones(len(answers))],
        axis=1,
    )

    def compute(weights: Floats) -> Floats:
        left, first, second, count = (weights @ columns).T
        spread = second - _ratio_or_zero(first**2, count)
        # What is left of a constant's spread is rounding, not spread.
        constant = spread <= 1e-12 * np.maximum(second, 1e-300)
        return np.where(constant, np.nan, 1 - _ratio(left, spread))

    return compute


def _mape(answers: Answers, _: Metric) -> Weighted:
    size = np.maximum(np.abs(answers.truth), np.finfo(np.float64).eps)
    return _mean(np.abs(answers.truth - answers.values()) / size)


def _pinball(answers: Answers, section: Metric) -> Weighted:
    apart = answers.truth - answers.values()
    return _mean(np.maximum(section.quantile * apart, (section.quantile - 1) * apart))


def _nats_per_token(answers: Answers, _: Metric) -> Weighted:
    columns = np.stack([answers.values(), answers.truth.astype(np.float64)], axis=1)

    def compute(weights: Floats) -> Floats:
        surprise, tokens = (weights @ columns).T
        return _ratio(surprise, tokens)

    return compute


def _perplexity(answers: Answers, section: Metric) -> Weighted:
    nats = _nats_per_token(answers, section)
    return lambda weights: np.exp(np.minimum(nats(weights), 709.0))


WEIGHTED: Mapping[str, Prepare] = MappingProxyType(
    {
        "accuracy": lambda answers, _: _mean((answers.chosen() == answers.truth).astype(float)),
        "balanced_accuracy": _counted(_balanced_accuracy),
        "f1": _of_positive(lambda counts: counts.f1()),
        "f1_macro": _counted(_f1_macro),
        "f1_weighted": _counted(_f1_weighted),
        "precision": _of_positive(lambda counts: _ratio_or_zero(counts.right, counts.chosen)),
        "recall": _of_positive(lambda counts: _ratio_or_zero(counts.right, counts.true)),
        "precision_at_recall": _precision_at_recall,
        "roc_auc": _ranked(_auc_of),
        "average_precision": _ranked(_average_precision_of),
        "log_loss": _log_loss,
        "brier": _brier,
        "calibration_error": _calibration_error,
        "mae": lambda answers, _: _mean(np.abs(answers.truth - answers.values())),
        "rmse": _rmse,
        "r2": _r2,
        "mape": _mape,
        "pinball": _pinball,
        "nats_per_token": _nats_per_token,
        "perplexity": _perplexity,
    }
)
