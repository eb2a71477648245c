"""What the best of many noisy scores is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.contract.sections.metric import METRICS, Metric
from trainwright.data.base.inputs import Floats
from trainwright.evaluation.candidates.compare_candidates import AnsweredRows
from trainwright.evaluation.intervals.bootstrap import Question, Resampling, resample
from trainwright.evaluation.metrics.weighted_metrics import weigh


@final
@dataclass(frozen=True, slots=True)
class BestOfMany:
    """The best of `count` candidates: its value, what other rows let expect of it (`worth`), and
    the probability `p` that the best of so many gains as much over the default as the kept one if
    none were better."""

    count: int
    value: float
    worth: float
    p: float


def judge_best(
    scores: Mapping[str, Floats],
    rows: AnsweredRows,
    metric: Metric,
    seed: int,
    default: str,
    kept: str,
) -> BestOfMany:
    """The best of candidates on shared resamples of their rows; all that there were, as the best of
    some are not the best of many.

    The worth is the value less the mean, over the resamples, of what the best of a resample has
    there beyond its value on all rows, and the best of all has not. `p` is that of the reality
    check (White 2000, Econometrica 68:1097): how often the largest gain over the default in a
    resample, less the gains on all rows, reaches that of the kept candidate. Both allow for
    candidates that are alike.
    """
    everything = np.arange(len(rows))
    weighted = [weigh(metric.name, rows.answers(one), metric) for one in scores.values()]
    sign = 1.0 if METRICS[metric.name].direction == "max" else -1.0
    questions = [Question(everything, one) for one in weighted]
    drawn = sign * resample(questions, Resampling(rows.units, metric.resamples, seed))
    ones = np.ones((1, len(rows)))
    values = sign * np.array([float(one(ones)[0]) for one in weighted])
    defined = np.isfinite(drawn).all(axis=0)
    drawn = drawn[:, defined]
    best, best_of_all = np.argmax(drawn, axis=0), int(np.argmax(values))
    surplus = (drawn.max(axis=0) - values[best]) - (drawn[best_of_all] - values[best_of_all])
    optimism = float(np.mean(surplus)) if defined.any() else np.nan
    names = list(scores)
    at = names.index(default)
    gains = values - values[at]
    largest = np.max(drawn - drawn[at] - gains[:, None], axis=0)
    p = (1 + int(np.sum(largest >= gains[names.index(kept)]))) / (1 + len(largest))
    value = float(values.max())
    return BestOfMany(len(scores), sign * value, sign * (value - optimism), p)
