"""Metrics with intervals: of a model, its slices and the baselines, on the same resamples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trainwright.contract.sections.metric import Metric
from trainwright.data.base.inputs import Floats, Integers
from trainwright.evaluation.intervals.bootstrap import (
    Interval,
    Question,
    Resampling,
    interval_of,
    resample,
    share_interval,
    undefined_share,
)
from trainwright.evaluation.metrics.metric_values import (
    OF_PAIRS,
    OF_QUERIES,
    present_classes,
)
from trainwright.evaluation.metrics.predictions import Answers, count_units
from trainwright.evaluation.metrics.weighted_metrics import BinSums, Sums, weigh

SHARES = frozenset(
    {
        "accuracy",
        "balanced_accuracy",
        "f1",
        "f1_macro",
        "f1_weighted",
        "precision",
        "recall",
        "precision_at_recall",
        "roc_auc",
        "average_precision",
        "hamming_loss",
        "subset_accuracy",
        "f1_micro",
        *OF_QUERIES,
        *OF_PAIRS,
        "coverage",
        "preference_accuracy",
    }
)
"""Metrics in [0, 1] for which a perfect sample value does not imply a perfect model."""

OF_ALL = frozenset(
    {
        "accuracy",
        "f1_weighted",
        "hamming_loss",
        "subset_accuracy",
        "coverage",
        "preference_accuracy",
        *OF_PAIRS,
    }
)
"""Those of them that rest on all rows."""

OF_POSITIVES = frozenset({"f1", "precision", "recall", "precision_at_recall", "average_precision"})
"""Those that rest on the positive class of two."""


Count = Callable[[Integers], int]
"""Counts the distinct units of some rows."""


@dataclass(frozen=True, slots=True)
class MeasuredMetric:
    """One metric on a subset of rows. `answers` are those of `rows`, positions in the part."""

    metric: str
    answers: Answers
    rows: Integers


@dataclass(frozen=True, slots=True)
class ResampledMetric:
    """An interval, its resampled values [R], and the number of units it is based on."""

    interval: Interval
    values: Floats
    units: int

    @property
    def undefined(self) -> float:
        """Share of undefined resamples."""
        return undefined_share(self.values)


def measure_lines(
    lines: Sequence[MeasuredMetric], section: Metric, draws: Resampling
) -> list[ResampledMetric]:
    """Value and interval of each line, on one set of resamples."""
    questions = [
        Question(
            line.rows,
            weigh(line.metric, line.answers, section) if len(line.answers) else _undefined,
        )
        for line in lines
    ]
    # Single-row units need no recount for each line.
    units = count_units(draws.units)
    count: Count = len if units == len(draws.units) else count_units
    return [
        _measured(
            line.metric,
            _point(line, question),
            values,
            section,
            _deciding_units(line, draws.units[line.rows], count, section),
        )
        for line, question, values in zip(lines, questions, resample(questions, draws), strict=True)
    ]


def gain_of(model: ResampledMetric, baseline: ResampledMetric, confidence: float) -> Interval:
    """The model's value minus the baseline's, with the interval of the paired differences.

    If the model's resamples all agree, its own (widened) interval is used for the difference.
    """
    value = model.interval.value - baseline.interval.value
    gain = interval_of(value, model.values - baseline.values, confidence, model.units)
    if not gain.given or np.ptp(model.values[~np.isnan(model.values)]) > 0:
        return gain
    return Interval(
        value,
        min(gain.low, model.interval.low - baseline.interval.value),
        max(gain.high, model.interval.high - baseline.interval.value),
    )


def _point(line: MeasuredMetric, question: Question) -> float:
    """Point value, from the prepared form: it avoids sorting and checking the rows again, and the
    import of scikit-learn."""
    if not len(line.rows):
        return math.nan
    match question.weighted:
        case Sums() | BinSums() as metric:
            return float(metric.of_all()[0])
        case weighted:
            return float(weighted(np.ones((1, len(line.rows))))[0])


def _measured(
    metric: str, value: float, values: Floats, section: Metric, units: int
) -> ResampledMetric:
    bound = share_interval if metric in SHARES else interval_of
    return ResampledMetric(bound(value, values, section.confidence, units), values, units)


def _undefined(weights: Floats) -> Floats:
    return np.full(len(weights), np.nan)


def _deciding_units(line: MeasuredMetric, units: Integers, count: Count, section: Metric) -> int:
    """Effective units: those of the positive class, or of the rarest class, or of the queries that
    have a value."""
    answers = line.answers
    if line.metric in OF_QUERIES and len(answers):
        from trainwright.evaluation.metrics.query_metrics import values_of_queries

        found = values_of_queries(line.metric, answers, section)
        return count_units(units[found.rows[found.informs]])
    if line.metric not in SHARES or line.metric in OF_ALL or not len(answers):
        return count(units)
    if answers.are_labels:
        return _units_of_labels(line, units, count)
    if line.metric in OF_POSITIVES and answers.classes == 2:
        return count(units[answers.is_positive()])
    if count is len:
        counts = answers.class_counts()
        return int(counts[counts > 0].min())
    return min(count(units[answers.truth == code]) for code in present_classes(answers))


def _units_of_labels(line: MeasuredMetric, units: Integers, count: Count) -> int:
    """Units that have any label, or for a mean over the labels those of the rarest one."""
    truth = line.answers.truth.astype(bool)
    if line.metric == "f1_micro":
        return count(units[truth.any(axis=1)])
    each = [count(units[column]) for column in truth.T if column.any()]
    return min(each, default=0)


class DecidingClass(NamedTuple):
    """The code of the class that an interval rests on, and its independent units."""

    code: int
    units: int


def deciding_class(
    metric: str, truth: Integers, units: Integers, positive: int, classes: int
) -> DecidingClass:
    """The positive class, or that of the classes which has the fewest units; -1 and all units for a
    metric that rests on all rows. `truth` [N] holds codes of `classes` classes."""
    if metric not in SHARES or metric in OF_ALL or not len(truth):
        return DecidingClass(-1, count_units(units))
    if metric in OF_POSITIVES and classes == 2:
        return DecidingClass(positive, count_units(units[truth == positive]))
    found = (
        DecidingClass(int(code), count_units(units[truth == code]))
        for code in np.unique(truth[truth >= 0])
    )
    return min(found, key=lambda one: one.units)
