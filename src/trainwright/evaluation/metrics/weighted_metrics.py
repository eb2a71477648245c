"""Metrics vectorised over row weights, for the bootstrap.

A resample is a weight for each row, its multiplicity. Each metric is prepared once (sorted, binned)
and then maps weights [R, N] to values [R], equal to scikit-learn's value on the repeated rows; nan
where undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, final

import numpy as np
import numpy.typing as npt

from trainwright.contract.sections.metric import METRICS, Metric
from trainwright.data.base.inputs import Floats, Integers
from trainwright.evaluation.metrics.forecast_errors import (
    percentage_errors,
    scaled_errors,
    scaled_pinballs,
    share_errors,
)
from trainwright.evaluation.metrics.metric_values import (
    CALIBRATION_BINS,
    OF_PAIRS,
    OF_QUERIES,
    OF_TEXTS,
    calibration_bins,
    calibration_pairs,
    interval_scores,
    interval_widths,
    is_inside,
    preferred,
)
from trainwright.evaluation.metrics.predictions import (
    Answers,
    GroupSums,
    RowGroups,
    ratio,
    ratio_or_zero,
)
from trainwright.evaluation.metrics.ranking import average_precision, precision_at_recall, roc_auc

Weighted = Callable[[Floats], Floats]
"""Maps weights [R, N] to values [R]."""

Prepare = Callable[[Answers, Metric], Weighted]


def weigh(name: str, answers: Answers, section: Metric) -> Weighted:
    """Prepare a metric as a function of row weights."""
    if answers.are_several:
        # Imported here: few targets are several.
        from trainwright.evaluation.metrics.several_metrics import weigh_several

        found = weigh_several(name, answers, lambda one: weigh(name, one, section))
        return Sums(*found) if isinstance(found, tuple) else found
    return WEIGHTED[name](answers, section)


@final
@dataclass(frozen=True, slots=True)
class Sums:
    """A metric of weighted sums: `columns` [N, K] or [N] are summed; `use` takes the sums [R, K] or
    [R] and the sum of the weights [R] to values [R]."""

    columns: Floats
    use: Callable[[Floats, Floats], Floats]

    def __call__(self, weights: Floats) -> Floats:
        """The values [R] of these weights [R, N]."""
        return self.use(weights @ self.columns, weights.sum(axis=1))

    def of_all(self) -> Floats:
        """The value [1] of the rows themselves."""
        return self.use(self.columns.sum(axis=0)[None], np.array([float(len(self.columns))]))

    def grouped(self, groups: RowGroups) -> GroupSums:
        """The same as a function of how often each group is drawn [R, G]."""
        return GroupSums((groups.sums(self.columns), groups.sizes()), self.use)


@final
class BinSums:
    """`Sums` of one value a row [N], in the column of the row's bin [N] of so many."""

    def __init__(
        self, bins: Integers, values: Floats, count: int, use: Callable[[Floats, Floats], Floats]
    ) -> None:
        self._bins, self._values, self._count, self._use = bins, values, count, use

    @cached_property
    def _dense(self) -> Sums:
        return Sums(_one_hot(self._bins, self._count) * self._values[:, None], self._use)

    def __call__(self, weights: Floats) -> Floats:
        """The values [R] of these weights [R, N]."""
        return self._dense(weights)

    def of_all(self) -> Floats:
        """The value [1] of the rows themselves."""
        sums = np.bincount(self._bins, self._values, self._count).astype(np.float64)
        return self._use(sums[None], np.array([float(len(self._bins))]))

    def grouped(self, groups: RowGroups) -> GroupSums:
        """The same as a function of how often each group is drawn [R, G]."""
        shape = (groups.count, self._count)
        cells = groups.of_row * self._count + self._bins
        sums = np.bincount(cells, self._values, shape[0] * shape[1]).astype(np.float64)
        return GroupSums((sums.reshape(shape), groups.sizes()), self._use)


def _mean(values: Floats) -> Sums:
    return Sums(values, ratio)


def _one_hot(codes: npt.NDArray[Any], classes: int) -> Floats:
    return np.asarray(codes[:, None] == np.arange(classes), np.float64)


@dataclass(frozen=True, slots=True)
class _Counts:
    """Weighted counts of each class [R, C]: rightly chosen, true, chosen."""

    right: Floats
    true: Floats
    chosen: Floats

    def f1(self) -> Floats:
        return ratio_or_zero(2 * self.right, self.true + self.chosen)


def _confusion_columns(answers: Answers) -> Floats:
    """Of each row whether each class is rightly chosen, true, chosen: [N, 3 C]."""
    true = _one_hot(answers.truth, answers.classes)
    chosen = _one_hot(answers.chosen(), answers.classes)
    return np.concatenate([true * chosen, true, chosen], axis=1)


def _counted(use: Callable[[_Counts], Floats]) -> Prepare:
    def prepare(answers: Answers, _: Metric) -> Weighted:
        classes = answers.classes
        columns = answers.once("confusion", lambda: _confusion_columns(answers))

        def values(counts: Floats, _: Floats) -> Floats:
            return use(
                _Counts(
                    counts[:, :classes], counts[:, classes : 2 * classes], counts[:, 2 * classes :]
                )
            )

        return Sums(columns, values)

    return prepare


def _balanced_accuracy(counts: _Counts) -> Floats:
    occurs = (counts.true > 0).sum(axis=1).astype(np.float64)
    return ratio(ratio_or_zero(counts.right, counts.true).sum(axis=1), occurs)


def _f1_macro(counts: _Counts) -> Floats:
    occurs = (counts.true + counts.chosen > 0).sum(axis=1).astype(np.float64)
    return ratio(counts.f1().sum(axis=1), occurs)


def _f1_weighted(counts: _Counts) -> Floats:
    return ratio((counts.f1() * counts.true).sum(axis=1), counts.true.sum(axis=1))


def _of_positive(use: Callable[[_Counts], Floats]) -> Prepare:
    def prepare(answers: Answers, section: Metric) -> Weighted:
        def select(counts: _Counts) -> Floats:
            values = use(counts)[:, answers.positive]
            return np.where(counts.true[:, answers.positive] > 0, values, np.nan)

        return _counted(select)(answers, section)

    return prepare


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
    return BinSums(
        calibration_bins(confidence),
        hit - confidence,
        CALIBRATION_BINS,
        lambda sums, total: ratio(np.abs(sums).sum(axis=1), total),
    )


def _quadratic_kappa(answers: Answers, _: Metric) -> Weighted:
    """The squared distance that chance expects of ranks t and c is E t^2 + E c^2 - 2 E t E c."""
    truth, chosen = (one.astype(np.float64) for one in (answers.truth, answers.chosen()))
    columns = np.stack([(truth - chosen) ** 2, truth, truth**2, chosen, chosen**2], axis=1)

    def values(sums: Floats, total: Floats) -> Floats:
        observed, first, second, of_chosen, second_of_chosen = sums.T
        expected = total * (second + second_of_chosen) - 2 * first * of_chosen
        # Integers, so that no disagreement by chance is exactly 0.
        return np.where(expected > 0, 1 - ratio_or_zero(observed * total, expected), np.nan)

    return Sums(columns, values)


def _mae_of_ranks(answers: Answers, _: Metric) -> Weighted:
    return _mean(np.abs(answers.truth - answers.chosen()).astype(np.float64))


def _rmse(answers: Answers, _: Metric) -> Weighted:
    squared = (answers.truth - answers.values()) ** 2
    return Sums(squared, lambda sums, total: np.sqrt(ratio(sums, total)))


def _r2(answers: Answers, _: Metric) -> Weighted:
    # Centred first: the variance as a difference of two sums loses digits far from 0.
    centred = answers.truth - answers.truth.mean() if len(answers) else answers.truth
    columns = np.stack(
        [(answers.truth - answers.values()) ** 2, centred, centred**2, np.ones(len(answers))],
        axis=1,
    )

    def values(sums: Floats, _: Floats) -> Floats:
        left, first, second, count = sums.T
        spread = second - ratio_or_zero(first**2, count)
        # What is left of a constant's spread is rounding, not spread.
        constant = spread <= 1e-12 * np.maximum(second, 1e-300)
        return np.where(constant, np.nan, 1 - ratio(left, spread))

    return Sums(columns, values)


def _pinball(answers: Answers, section: Metric) -> Weighted:
    levels = np.array(answers.quantiles or (section.quantile,))
    apart = answers.truth[:, None] - answers.scores
    return _mean(np.maximum(levels * apart, (levels - 1) * apart).mean(axis=1))


def _of_interval(each: Callable[[Answers], npt.NDArray[Any]]) -> Prepare:
    def prepare(answers: Answers, _: Metric) -> Weighted:
        if not answers.quantiles:
            return _mean(np.full(len(answers), np.nan))
        return _mean(each(answers).astype(np.float64))

    return prepare


def _poisson_deviance(answers: Answers, _: Metric) -> Weighted:
    counts, rates = answers.truth.astype(np.float64), answers.values()
    if len(answers) and (counts.min() < 0 or rates.min() <= 0):
        return _mean(np.full(len(answers), np.nan))
    # 0 log 0 is 0: with a ratio of 1 instead its logarithm is.
    ratios = np.where(counts > 0, counts, rates) / rates
    return _mean(2 * (counts * np.log(ratios) - counts + rates))


def _rmsle(answers: Answers, _: Metric) -> Weighted:
    truth, values = answers.truth.astype(np.float64), answers.values()
    if len(answers) and min(truth.min(), values.min()) < 0:
        return _mean(np.full(len(answers), np.nan))
    squared = (np.log1p(truth) - np.log1p(values)) ** 2
    return Sums(squared, lambda sums, total: np.sqrt(ratio(sums, total)))


def _of_queries(name: str) -> Prepare:
    def prepare(answers: Answers, section: Metric) -> Sums:
        from trainwright.evaluation.metrics.query_metrics import values_of_queries

        columns = values_of_queries(name, answers, section).columns(len(answers))
        return Sums(columns, lambda sums, _: ratio(*sums.T))

    return prepare


def _of_pairs(name: str) -> Prepare:
    def prepare(answers: Answers, _: Metric) -> Sums:
        if METRICS[name].of == "passages":
            from trainwright.evaluation.metrics.retrieval import passage_sums

            return Sums(passage_sums(name, answers), lambda sums, _: ratio(*sums.T))
        from trainwright.evaluation.metrics.retrieval import values_of_pairs

        return _mean(values_of_pairs(name, answers))

    return prepare


def _of_texts(name: str) -> Prepare:
    def prepare(answers: Answers, _: Metric) -> Sums:
        from trainwright.evaluation.metrics.text_metrics import byte_sums, token_sums

        columns = byte_sums(answers) if name == "bits_per_byte" else token_sums(answers)
        if name == "perplexity":
            return Sums(columns, lambda sums, _: np.exp(np.minimum(ratio(*sums.T), 709.0)))
        return Sums(columns, lambda sums, _: ratio(*sums.T))

    return prepare


WEIGHTED: Mapping[str, Prepare] = MappingProxyType(
    {
        "accuracy": lambda answers, _: _mean((answers.chosen() == answers.truth).astype(float)),
        "balanced_accuracy": _counted(_balanced_accuracy),
        "f1": _of_positive(lambda counts: counts.f1()),
        "f1_macro": _counted(_f1_macro),
        "f1_weighted": _counted(_f1_weighted),
        "precision": _of_positive(lambda counts: ratio_or_zero(counts.right, counts.chosen)),
        "recall": _of_positive(lambda counts: ratio_or_zero(counts.right, counts.true)),
        "precision_at_recall": precision_at_recall,
        "roc_auc": roc_auc,
        "average_precision": average_precision,
        "log_loss": _log_loss,
        "brier": _brier,
        "calibration_error": _calibration_error,
        "quadratic_kappa": _quadratic_kappa,
        "mae_of_ranks": _mae_of_ranks,
        "cost": lambda answers, _: _mean(answers.row_costs()),
        "mae": lambda answers, _: _mean(np.abs(answers.truth - answers.values())),
        "rmse": _rmse,
        "r2": _r2,
        "mape": lambda answers, _: Sums(share_errors(answers), lambda sums, _: ratio(*sums.T)),
        "pinball": _pinball,
        "poisson_deviance": _poisson_deviance,
        "rmsle": _rmsle,
        "coverage": _of_interval(is_inside),
        "interval_width": _of_interval(interval_widths),
        "interval_score": _of_interval(interval_scores),
        "mase": lambda answers, _: Sums(scaled_errors(answers), lambda sums, _: ratio(*sums.T)),
        "smape": lambda answers, _: _mean(percentage_errors(answers)),
        "scaled_pinball": lambda answers, _: Sums(
            scaled_pinballs(answers), lambda sums, _: ratio(*sums.T)
        ),
        **{name: _of_texts(name) for name in OF_TEXTS},
        "preference_accuracy": lambda answers, _: _mean(preferred(answers)),
        "reward_margin": lambda answers, _: _mean(answers.values()),
        **{name: _of_queries(name) for name in OF_QUERIES},
        **{name: _of_pairs(name) for name in OF_PAIRS},
    }
)
