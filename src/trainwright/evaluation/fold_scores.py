"""Scores of cross-validation and of other seeds, with their intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import final

import numpy as np

from trainwright.contract.sections.metric import METRICS, Metric
from trainwright.core.files import Json
from trainwright.core.formatting import show_number
from trainwright.data.base.inputs import Floats, Integers
from trainwright.evaluation.clause import DUMMY
from trainwright.evaluation.evaluate import Scored
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.evaluation.metrics.metric_values import measure, metrics_of
from trainwright.evaluation.metrics.predictions import Answers, answers_of

NOT_DECIDED: Mapping[int, Integers] = MappingProxyType({})


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


@final
@dataclass(frozen=True, slots=True)
class SeedScores:
    """Metrics by seed, the run's own first, on the same test rows; empty with a single seed."""

    seeds: tuple[int, ...] = ()
    metrics: Mapping[str, tuple[float, ...]] | None = None
    reached: tuple[bool, ...] = ()

    def of(self, metric: str) -> tuple[float, ...]:
        """Values of a metric, nan where undefined."""
        return (self.metrics or {}).get(metric, ())

    def to_json(self) -> Json:
        """Plain JSON; what is not defined is null."""
        values = {
            name: [v if math.isfinite(v) else None for v in each]
            for name, each in (self.metrics or {}).items()
        }
        return {"seeds": list(self.seeds), "metrics": values, "reached": list(self.reached)}

    def describe(self, metric: str) -> str:
        """`roc_auc 0.76 · 0.85, mean 0.81, standard deviation 0.06 over 2 seeds`."""
        values = self.of(metric)
        listed = " · ".join(map(show_number, values))
        spread = show_number(statistics.stdev(values))
        mean = show_number(statistics.fmean(values))
        return (
            f"{metric} {listed}, mean {mean}, standard deviation {spread} over {len(values)} seeds"
        )

    def doubt(self, metric: str) -> tuple[str, ...]:
        """Warning if the seed decides whether the target is reached."""
        if all(self.reached) or not any(self.reached):
            return ()
        low, high = min(self.of(metric)), max(self.of(metric))
        return (
            f"the seed decides: {metric} is {show_number(low)} to {show_number(high)} over "
            f"{len(self.seeds)} seeds on the same split, and {sum(self.reached)} of them reach the "
            "target",
        )


def score_seeds(
    scored: Scored,
    others: Mapping[int, Floats],
    seed: int,
    metric: Metric,
    decided: Mapping[int, Integers] = NOT_DECIDED,
) -> SeedScores:
    """Score the run's own model, of `seed`, and those of other seeds on the same rows; `decided`
    are the classes that these chose by a threshold."""
    if not others:
        return SeedScores()
    own = _answers(scored, scored.scores, scored.decided)
    given = ((scores, decided.get(of)) for of, scores in others.items())
    all_answers = [own, *(_answers(scored, *each) for each in given)]
    names = metrics_of(scored.target)
    values = {name: tuple(measure(name, one, metric) for one in all_answers) for name in names}
    targets = _targets(scored, metric)
    reached = tuple(_reaches(value, targets, metric.name) for value in values[metric.name])
    return SeedScores((seed, *others), values, reached)


def _targets(scored: Scored, metric: Metric) -> Sequence[float]:
    """Targets of the contract's metric: a number, or the baselines' values."""
    if isinstance(metric.target, float):
        return (metric.target,)
    named = DUMMY if metric.target == "baseline" else metric.target
    scores = [scored.baselines[named]] if named in scored.baselines else scored.baselines.values()
    return [measure(metric.name, _answers(scored, one), metric) for one in scores]


def _reaches(value: float, targets: Sequence[float], metric: str) -> bool:
    sign = 1 if METRICS[metric].direction == "max" else -1
    return all(sign * value >= sign * target for target in targets)


def _answers(scored: Scored, scores: Floats, decided: Integers | None = None) -> Answers:
    if scored.target.task == "retrieval":
        # Imported here: few runs match pairs.
        from trainwright.evaluation.metrics.retrieval import answers_of_retrieval

        return answers_of_retrieval(scored.target, scored.part.target, scores)
    positive = scored.target.positive_code
    return answers_of(
        scored.part.target,
        scores,
        positive,
        decided=decided,
        queries=scored.queries,
        quantiles=scored.target.quantiles,
        levels=scored.part.inputs.levels,
        costs=scored.target.costs,
    )
