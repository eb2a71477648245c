"""What a score loses under a condition, with the interval of the difference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from trainwright.contract.metric import METRICS, Metric
from trainwright.data.base.table import Floats, Integers
from trainwright.evaluation.intervals import Interval, Resampling
from trainwright.evaluation.predictions import Answers
from trainwright.evaluation.resampled_metrics import MeasuredMetric, ResampledMetric, measure_lines
from trainwright.evaluation.resampling_units import count_units

Effects = Mapping[str, "Effect"]
"""The effect on the probe's own metric, and on its distance from other models, by their names."""

RESAMPLES = 300
"""Resamples for the standard error of a difference: known to within 4% then."""

_FEWEST_UNITS = 10


@final
@dataclass(frozen=True, slots=True)
class Effect:
    """A metric `before` and `after` what a finding names was taken away. `deviation` is the
    standard error of their difference over `units` that were resampled as wholes, nan where there
    are too few."""

    metric: str
    before: float
    after: float
    deviation: float
    units: int

    @property
    def loss(self) -> float:
        """By how much the metric is worse after; negative where it is better."""
        sign = 1.0 if METRICS[self.metric].direction == "max" else -1.0
        return sign * (self.before - self.after)

    def reach(self, confidence: float) -> float:
        """Half the interval of the difference: Student's t on the units."""
        if self.units < _FEWEST_UNITS or not math.isfinite(self.deviation):
            return math.inf
        # Imported here: only runs with findings need it.
        from scipy.stats import t as student

        return float(student.ppf((1 + confidence) / 2, self.units - 1)) * self.deviation

    def difference(self, confidence: float) -> Interval:
        """After minus before."""
        value, reach = self.after - self.before, self.reach(confidence)
        if not math.isfinite(value):
            return Interval(value, -math.inf, math.inf)
        return Interval(value, value - reach, value + reach)

    def is_measured(self, confidence: float) -> bool:
        """Whether the metric is worse after, over the whole interval."""
        reach = self.reach(confidence)
        return math.isfinite(reach) and self.loss > reach


@final
@dataclass(frozen=True, slots=True)
class Scores:
    """What a probe gave for the same rows, once or several times, under the two conditions."""

    before: Sequence[Answers]
    after: Sequence[Answers]


def compare(scores: Mapping[str, Scores], units: Integers, section: Metric, seed: int) -> Effects:
    """The effect on the contract's metric of the first probe, under its name, and under the name of
    each other probe the effect on the first one's metric minus its own. Each is a mean over the
    repetitions; the rows of a unit are resampled together."""
    every = np.arange(len(units))
    lines = [
        MeasuredMetric(section.name, each, every)
        for one in scores.values()
        for each in (*one.before, *one.after)
    ]
    values = iter(measure_lines(lines, section, Resampling(units, RESAMPLES, seed)))
    count = count_units(units)
    found: dict[str, Pair] = {
        who: Pair([next(values) for _ in one.before], [next(values) for _ in one.after])
        for who, one in scores.items()
    }
    first = next(iter(found))
    own = effect_of(section.name, found[first], count)
    return {
        who: own if who == first else effect_of(section.name, found[first], count, pair)
        for who, pair in found.items()
    }


class Pair(NamedTuple):
    """Measurements under the two conditions, as often one as the other, over the same resamples."""

    before: Sequence[ResampledMetric]
    after: Sequence[ResampledMetric]

    def values(self, after: bool) -> Floats:
        """The value of each repetition."""
        return np.array([one.interval.value for one in (self.after if after else self.before)])

    def differences(self) -> Floats:
        """After minus before on each resample, a mean over the repetitions."""
        after, before = ([one.values for one in part] for part in (self.after, self.before))
        mean: Floats = np.mean(after, axis=0) - np.mean(before, axis=0)
        return mean


def effect_of(metric: str, pair: Pair, units: int, beside: Pair | None = None) -> Effect:
    """The effect on a metric, or on its distance from that of another model."""
    differences = pair.differences()
    before, after = pair.values(after=False), pair.values(after=True)
    if beside is not None:
        differences = differences - beside.differences()
        before = before - beside.values(after=False)
        after = after - beside.values(after=True)
    known = differences[~np.isnan(differences)]
    deviation = float(known.std(ddof=1)) if len(known) > len(differences) // 2 else math.nan
    if len(before) > 1:
        # The same rows in other folds: what a resample of the rows cannot show.
        rounds = float(np.std(after - before, ddof=1)) / math.sqrt(len(before))
        deviation = math.hypot(deviation, rounds)
    return Effect(metric, float(before.mean()), float(after.mean()), deviation, units)
