"""Candidates compared on rows that none of them was trained on, and the choice among them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np
import numpy.typing as npt

from trainwright.contract.sections.metric import METRICS, Direction, Metric
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.columns.target import Costs
from trainwright.evaluation.intervals.bootstrap import Interval, Resampling
from trainwright.evaluation.intervals.resampled_metrics import (
    MeasuredMetric,
    gain_of,
    measure_lines,
)
from trainwright.evaluation.metrics.predictions import Answers, answers_of
from trainwright.evaluation.metrics.weighted_metrics import weigh


@final
@dataclass(frozen=True, slots=True)
class ComparedRows:
    """Truth [N] and units [N] of the rows on which candidates are compared, the code of the
    positive class, the fold [N] of each row if models of folds scored them, and the costs of
    errors, which the cheapest decisions by the scores are charged."""

    truth: npt.NDArray[Any]
    units: Integers
    positive: int
    folds: Integers | None = None
    costs: Costs = ()

    def __len__(self) -> int:
        return len(self.truth)

    def answers(self, scores: Floats) -> Answers:
        """These rows with scores, [N, C] or [N, 1]."""
        return answers_of(self.truth, scores, self.positive, self.folds, costs=self.costs)

    def take(self, rows: Integers) -> ComparedRows:
        """The given rows, in the given order."""
        folds = None if self.folds is None else self.folds[rows]
        truth, units = self.truth[rows], self.units[rows]
        return ComparedRows(truth, units, self.positive, folds, self.costs)

    def value(self, scores: Floats, metric: Metric) -> float:
        """The metric of scores of these rows; nan where it is undefined."""
        weighted = weigh(metric.name, self.answers(scores), metric)
        return float(weighted(np.ones((1, len(self))))[0])


@final
@dataclass(frozen=True, slots=True)
class ComparedScore:
    """The metric of a candidate, and its value minus that of the best one, with the interval of the
    paired difference."""

    score: Interval
    gain: Interval


class AnsweredRows(Protocol):
    """Rows whose answers are known, with a unit [N] each."""

    @property
    def units(self) -> Integers:
        """The independent unit of each row."""
        ...

    def __len__(self) -> int: ...

    def answers(self, scores: Floats) -> Answers:
        """These rows with scores, [N, C] or [N, 1]."""
        ...


def compare_candidates(
    scores: Mapping[str, Floats], rows: AnsweredRows, metric: Metric, seed: int, against: str = ""
) -> dict[str, ComparedScore]:
    """Score of each candidate, and how far it is from one of them, the best by default, on shared
    resamples."""
    everything = np.arange(len(rows))
    lines = [MeasuredMetric(metric.name, rows.answers(one), everything) for one in scores.values()]
    draws = Resampling(rows.units, metric.resamples, seed)
    measured = dict(zip(scores, measure_lines(lines, metric, draws), strict=True))
    values = {name: one.interval.value for name, one in measured.items()}
    best = measured[against or best_of(values, METRICS[metric.name].direction)]
    return {
        name: ComparedScore(one.interval, gain_of(one, best, metric.confidence))
        for name, one in measured.items()
    }


def best_of(values: Mapping[str, float], direction: Direction) -> str:
    """Name of the best value, the first of equal ones; an undefined value is the worst."""
    sign = 1.0 if direction == "max" else -1.0
    return max(values, key=lambda name: _order(sign * values[name]))


def choose_simplest(
    compared: Mapping[str, ComparedScore], names: Sequence[str], direction: Direction
) -> str:
    """The first of the names, from the simplest on, whose paired interval reaches the best; the
    best itself does."""
    values = {name: compared[name].score.value for name in names}
    best = best_of(values, direction)
    return next(name for name in names if name == best or _reaches(compared[name].gain, direction))


def _reaches(gain: Interval, direction: Direction) -> bool:
    if not gain.given:
        return False
    return gain.high >= 0 if direction == "max" else gain.low <= 0


def _order(value: float) -> float:
    return -math.inf if math.isnan(value) else value
