"""Metrics of a model, of its slices and of the baselines, all over the same resamples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trainwright.contract.metric import Metric
from trainwright.data.base.table import Floats, Integers
from trainwright.evaluation.intervals import (
    Interval,
    Question,
    Resampling,
    interval_of,
    resample,
    share_interval,
    undefined_share,
)
from trainwright.evaluation.metric_values import measure, present_classes
from trainwright.evaluation.predictions import Answers
from trainwright.evaluation.random_groups import MOST_UNITS
from trainwright.evaluation.resampling_units import count_units
from trainwright.evaluation.weighted_metrics import BinSums, Sums, weigh

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
    }
)
"""Metrics between 0 and 1 of which a perfect value on some rows is no proof of perfection."""

_OF_ALL = frozenset({"accuracy", "f1_weighted"})
_OF_POSITIVES = frozenset({"f1", "precision", "recall", "precision_at_recall", "average_precision"})


Count = Callable[[Integers], int]
"""How many different units there are among those of some rows."""


@dataclass(frozen=True, slots=True)
class MeasuredMetric:
    """One metric of some rows. `answers` are those of `rows`, positions in the whole part."""

    metric: str
    answers: Answers
    rows: Integers


@dataclass(frozen=True, slots=True)
class ResampledMetric:
    """An interval, the resampled values [R] behind it, and how many units it rests on."""

    interval: Interval
    values: Floats
    units: int

    @property
    def left_out(self) -> float:
        """Share of the resamples on which the metric was not defined."""
        return undefined_share(self.values)


def measure_lines(
    lines: Sequence[MeasuredMetric], section: Metric, draws: Resampling
) -> list[ResampledMetric]:
    """Each line's value and interval, in order; one set of resamples serves all."""
    questions = [
        Question(
            line.rows,
            weigh(line.metric, line.answers, section) if len(line.answers) else _undefined,
        )
        for line in lines
    ]
    # Units of one row each need not be told apart again for each line.
    units = count_units(draws.units)
    count: Count = len if units == len(draws.units) else count_units
    return [
        _measured(
            line.metric,
            _point(line, question, section, units),
            values,
            section,
            _deciding_units(line, draws.units[line.rows], count),
        )
        for line, question, values in zip(lines, questions, resample(questions, draws), strict=True)
    ]


def gain_of(model: ResampledMetric, baseline: ResampledMetric, confidence: float) -> Interval:
    """The model's value minus the baseline's, with the interval of the paired differences.

    Where the model's resamples all agree, its own interval, which is widened then, is what could
    still change.
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


def _point(line: MeasuredMetric, question: Question, section: Metric, units: int) -> float:
    """The value: of many units that of the form that was prepared for the resamples, which does
    not sort and check the rows again for each metric."""
    if units <= MOST_UNITS or not len(line.rows):
        return measure(line.metric, line.answers, section)
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


def _deciding_units(line: MeasuredMetric, units: Integers, count: Count) -> int:
    """Units that the value rests on: of the positive class, or of the class that has fewest."""
    answers = line.answers
    if line.metric not in SHARES or line.metric in _OF_ALL or not len(answers):
        return count(units)
    if line.metric in _OF_POSITIVES and answers.classes == 2:
        return count(units[answers.is_positive()])
    if count is len:
        counts = answers.class_counts()
        return int(counts[counts > 0].min())
    return min(count(units[answers.truth == code]) for code in present_classes(answers))
