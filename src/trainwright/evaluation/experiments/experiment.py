"""An experiment on a finding: both scores, their difference with its interval, the corrected
score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, final

import numpy as np

from trainwright.contract.sections.data.quality import BindingFinding
from trainwright.contract.sections.metric import METRICS, Metric
from trainwright.core.files import Json
from trainwright.core.formatting import show_number
from trainwright.data.base.inputs import Floats, Integers
from trainwright.evaluation.clause import Clause
from trainwright.evaluation.intervals.bootstrap import Interval, Resampling
from trainwright.evaluation.intervals.resampled_metrics import (
    MeasuredMetric,
    ResampledMetric,
    measure_lines,
)
from trainwright.evaluation.metrics.predictions import Answers, count_units

Effects = Mapping[str, "Effect"]
"""Effects on the probe's metric, and on its gain over other models by name."""

RESAMPLES = 300
"""Resamples for the standard error of a difference, accurate to 4%."""

_FEWEST_UNITS = 10

Outcome = Literal["changes_decision", "accepted", "measured", "not_measured"]
"""`changes_decision`: a met clause would not be met without the suspects, or is met by a model that
relies on a leak. `accepted`: the same, accepted by the contract. `measured`: a worse score, but the
same decision. `not_measured`: no measurable difference."""


@final
@dataclass(frozen=True, slots=True)
class Effect:
    """A metric `before` and `after` removing the suspects of a finding. `deviation` is the standard
    error of the difference over `units` of a cluster bootstrap, nan if there are too few."""

    metric: str
    before: float
    after: float
    deviation: float
    units: int

    @property
    def loss(self) -> float:
        """Decrease in quality; negative for an improvement."""
        sign = 1.0 if METRICS[self.metric].direction == "max" else -1.0
        return sign * (self.before - self.after)

    def reach(self, confidence: float) -> float:
        """Half-width of the difference's interval, by Student's t on the units."""
        if self.units < _FEWEST_UNITS or not math.isfinite(self.deviation):
            return math.inf
        # Imported here since only runs with findings need it.
        from scipy.stats import t as student

        return float(student.ppf((1 + confidence) / 2, self.units - 1)) * self.deviation

    def difference(self, confidence: float) -> Interval:
        """After minus before."""
        value, reach = self.after - self.before, self.reach(confidence)
        if not math.isfinite(value):
            return Interval(value, -math.inf, math.inf)
        return Interval(value, value - reach, value + reach)

    def is_measured(self, confidence: float) -> bool:
        """Is the metric worse over the whole interval?"""
        reach = self.reach(confidence)
        return math.isfinite(reach) and self.loss > reach


@final
@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of a probe on the same rows under the two conditions, with repetitions."""

    before: Sequence[Answers]
    after: Sequence[Answers]


def compare(scores: Mapping[str, Scores], units: Integers, section: Metric, seed: int) -> Effects:
    """The effect on the contract's metric of the first probe, under its name, and under the name of
    each other probe the effect on the first one's metric minus its own. Each is the mean over the
    repetitions, by a cluster bootstrap over units."""
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
    """Paired measurements under the two conditions over the same resamples."""

    before: Sequence[ResampledMetric]
    after: Sequence[ResampledMetric]

    def values(self, after: bool) -> Floats:
        """Values of the repetitions."""
        return np.array([one.interval.value for one in (self.after if after else self.before)])

    def differences(self) -> Floats:
        """After minus before on each resample, averaged over the repetitions."""
        after, before = ([one.values for one in part] for part in (self.after, self.before))
        mean: Floats = np.mean(after, axis=0) - np.mean(before, axis=0)
        return mean


def effect_of(metric: str, pair: Pair, units: int, beside: Pair | None = None) -> Effect:
    """Effect on a metric, or on its gain over another model."""
    differences = pair.differences()
    before, after = pair.values(after=False), pair.values(after=True)
    if beside is not None:
        differences = differences - beside.differences()
        before = before - beside.values(after=False)
        after = after - beside.values(after=True)
    known = differences[~np.isnan(differences)]
    deviation = float(known.std(ddof=1)) if len(known) > len(differences) // 2 else math.nan
    if len(before) > 1:
        # Variance over fold assignments, which a row bootstrap does not capture.
        rounds = float(np.std(after - before, ddof=1)) / math.sqrt(len(before))
        deviation = math.hypot(deviation, rounds)
    return Effect(metric, float(before.mean()), float(after.mean()), deviation, units)


@final
@dataclass(frozen=True, slots=True)
class Experiment:
    """One audit finding, `message`, and the measurement without its suspects.

    `before` and `after` are the metric under the two conditions that `conditions` names,
    `difference` is after minus before with its interval; nan if it could not be run. `corrected`
    are the clauses as they would be judged. `write` is the contract line that resolves it, `reason`
    the contract's reason for accepting it, if any.
    """

    finding: BindingFinding
    columns: tuple[str, ...]
    message: str
    method: str
    conditions: tuple[str, str]
    metric: str
    before: float
    after: float
    difference: Interval
    corrected: tuple[Clause, ...]
    outcome: Outcome
    write: str
    reason: str = ""

    @property
    def name(self) -> str:
        """`group_overlap of 'subject'`, or only the finding if it concerns rows."""
        columns = ", ".join(map(repr, self.columns))
        return f"{self.finding} of {columns}" if columns else self.finding

    @property
    def numbers(self) -> str:
        """Both numbers and the interval of their difference."""
        text = (
            f"{self.metric} {show_number(self.before)} {self.conditions[0]}, "
            f"{show_number(self.after)} {self.conditions[1]}"
        )
        if not self.difference.given:
            return text
        low, high = show_number(self.difference.low), show_number(self.difference.high)
        return f"{text} (difference {show_number(self.difference.value)}, {low} to {high})"

    def warning(self) -> str:
        """Warning for a difference that does not change the decision; empty without a
        measurement."""
        match self.outcome:
            case "measured":
                said = f"{self.name}: {self.numbers}; the decision is the same"
                return f"{said}. {self.write}" if self.write else said
            case "accepted":
                return f"{self.name}: {self.numbers}; accepted: {self.reason}"
            case _:
                return ""

    def to_json(self) -> Json:
        """Plain JSON; unknown values are null."""
        return {
            "finding": self.finding,
            "columns": list(self.columns),
            "message": self.message,
            "outcome": self.outcome,
            "method": self.method,
            "metric": self.metric,
            "before": {"condition": self.conditions[0], "value": _known(self.before)},
            "after": {"condition": self.conditions[1], "value": _known(self.after)},
            "difference": self.difference.to_json(),
            "clauses": [clause.to_json() for clause in self.corrected],
            "write": self.write,
            "reason": self.reason,
        }

    @staticmethod
    def from_json(json: Json) -> Experiment:
        """The inverse of `to_json`."""
        before, after = json["before"], json["after"]
        return Experiment(
            finding=json["finding"],
            columns=tuple(json["columns"]),
            message=json["message"],
            method=json["method"],
            conditions=(before["condition"], after["condition"]),
            metric=json["metric"],
            before=_number(before["value"]),
            after=_number(after["value"]),
            difference=Interval.from_json(json["difference"]),
            corrected=tuple(Clause.from_json(one) for one in json["clauses"]),
            outcome=json["outcome"],
            write=json["write"],
            reason=json["reason"],
        )


def warnings_of(experiments: Sequence[Experiment]) -> tuple[str, ...]:
    """Warnings of the findings that worsen the score without invalidating the verdict."""
    return tuple(line for one in experiments if (line := one.warning()))


def _known(value: float) -> Json:
    return value if math.isfinite(value) else None


def _number(value: Json) -> float:
    return math.nan if value is None else float(value)
