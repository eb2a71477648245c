"""Cross-validation scores and their corrected interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.contract.sections.metric import METRICS, Metric
from trainwright.core.files import Json
from trainwright.data.base.table import Integers
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.evaluation.metrics.metric_values import measure, metrics_of
from trainwright.evaluation.metrics.predictions import answers_of
from trainwright.evaluation.scored_part import Scored


@final
@dataclass(frozen=True, slots=True)
class Fold:
    """Training and test row counts of a fold, and its test metrics, nan if undefined."""

    train_rows: int
    test_rows: int
    metrics: Mapping[str, float]


@final
@dataclass(frozen=True, slots=True)
class FoldScores:
    """All folds, and the mean of each metric with its interval."""

    folds: tuple[Fold, ...]
    means: Mapping[str, Interval]

    def to_json(self) -> Json:
        """Plain JSON; what is not defined is null."""
        return {
            "folds": [
                {
                    "train_rows": one.train_rows,
                    "test_rows": one.test_rows,
                    "metrics": {k: v if math.isfinite(v) else None for k, v in one.metrics.items()},
                }
                for one in self.folds
            ],
            "means": {name: interval.to_json() for name, interval in self.means.items()},
        }


def score_folds(
    scored: Scored, fold_of_row: Integers, train_rows: Sequence[int], metric: Metric
) -> FoldScores:
    """Score each fold separately. `fold_of_row` [N] is the fold of each of the scored rows."""
    folds = []
    for number, trained in enumerate(train_rows):
        rows = np.flatnonzero(fold_of_row == number)
        folds.append(Fold(trained, len(rows), _measured(scored, rows, metric)))
    names = metrics_of(scored.target) if folds else ()
    return FoldScores(tuple(folds), {name: _mean(folds, name, metric.confidence) for name in names})


def corrected_interval(
    values: Sequence[float], train_rows: float, test_rows: float, confidence: float
) -> Interval:
    """Mean of a score over k folds with the corrected t interval.

    The folds share training rows, so their plain variance is far too small: it is multiplied by 1/k
    + n2/n1, with n1 training and n2 test rows of a fold, in place of 1/k (Nadeau and Bengio 2003,
    Machine Learning 52, section 3). No interval is given if a fold has no value.
    """
    # Imported here since only runs with folds need it.
    from scipy.stats import t as student

    numbers = np.array(values, dtype=np.float64)
    count, mean = len(numbers), float(numbers.mean())
    if not math.isfinite(mean) or count < 2:
        return Interval(mean, -math.inf, math.inf)
    spread = math.sqrt((1 / count + test_rows / train_rows) * float(numbers.var(ddof=1)))
    reach = float(student.ppf((1 + confidence) / 2, count - 1)) * spread
    return Interval(mean, mean - reach, mean + reach)


def within(interval: Interval, bounds: tuple[float, float]) -> Interval:
    """Clip an interval to the metric's bounds, which the t interval ignores."""
    if not interval.given:
        return interval
    least, most = bounds
    return Interval(interval.value, max(least, interval.low), min(most, interval.high))


def _measured(scored: Scored, rows: Integers, metric: Metric) -> dict[str, float]:
    positive = scored.target.positive_code
    decided = None if scored.decided is None else scored.decided[rows]
    queries = None if scored.queries is None else scored.queries[rows]
    answers = answers_of(
        scored.part.target[rows],
        scored.scores[rows],
        positive,
        decided=decided,
        queries=queries,
        quantiles=scored.target.quantiles,
        costs=scored.target.costs,
    )
    return {name: measure(name, answers, metric) for name in metrics_of(scored.target)}


def _mean(folds: Sequence[Fold], name: str, confidence: float) -> Interval:
    trained = float(np.mean([one.train_rows for one in folds]))
    tested = float(np.mean([one.test_rows for one in folds]))
    scores = [one.metrics[name] for one in folds]
    return within(corrected_interval(scores, trained, tested, confidence), METRICS[name].bounds)
