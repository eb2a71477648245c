"""A model measured: every metric with its interval, per slice, beside the baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trainwright.contract.metric import METRICS, Metric
from trainwright.contract.slices import Slice
from trainwright.core.files import Json
from trainwright.data.table import Floats, Integers, Part
from trainwright.data.target import Classes, Target
from trainwright.evaluation.answers import Answers, answers_of
from trainwright.evaluation.curves import Curves, curves_from_json, curves_to_json, draw_curves
from trainwright.evaluation.findings import find_warnings
from trainwright.evaluation.intervals import (
    Draws,
    Interval,
    Question,
    interval_of,
    resample,
    share_interval,
)
from trainwright.evaluation.metrics import measure, metric_names
from trainwright.evaluation.slices import SliceRows, find_slices
from trainwright.evaluation.weighted import weigh

Intervals = Mapping[str, Interval]

MODEL = "model"
ALL_ROWS = "all rows"


@dataclass(frozen=True, slots=True)
class Scored:
    """A part with what the model and the baselines gave for it.

    `scores` and each of `baselines` are [N, C] probabilities or [N, 1] values, in the part's row
    order. `shares` says how much of the linear baseline each column carries (sums to 1); it names
    the suspect when that baseline is near-perfect. `notes` are warnings that came up before.
    """

    part: Part
    target: Target
    scores: Floats
    baselines: Mapping[str, Floats] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SliceScore:
    """A metric on one slice. `number` is the position of its slice in the contract."""

    name: str
    metric: str
    rows: int
    interval: Interval
    number: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was measured on one part.

    `baselines` holds the metrics of each baseline, `gains` the model's value minus the baseline's
    with the interval of that difference over the same resamples (paired).
    """

    part: str
    rows: int
    units: int
    confidence: float
    metrics: Intervals
    slices: tuple[SliceScore, ...]
    baselines: Mapping[str, Intervals]
    gains: Mapping[str, Intervals]
    curves: Curves
    warnings: tuple[str, ...]

    def to_json(self) -> Json:
        """Plain JSON; what is not defined is null."""
        return {
            "part": self.part,
            "rows": self.rows,
            "units": self.units,
            "confidence": self.confidence,
            "metrics": _intervals_to_json(self.metrics),
            "slices": [
                {
                    "name": one.name,
                    "metric": one.metric,
                    "rows": one.rows,
                    "number": one.number,
                    **one.interval.to_json(),
                }
                for one in self.slices
            ],
            "baselines": {k: _intervals_to_json(v) for k, v in self.baselines.items()},
            "gains": {k: _intervals_to_json(v) for k, v in self.gains.items()},
            "curves": curves_to_json(self.curves),
            "warnings": list(self.warnings),
        }

    @staticmethod
    def from_json(json: Json) -> Evaluation:
        """The inverse of `to_json`."""
        return Evaluation(
            part=json["part"],
            rows=json["rows"],
            units=json["units"],
            confidence=json["confidence"],
            metrics=_intervals_from_json(json["metrics"]),
            slices=tuple(
                SliceScore(
                    one["name"],
                    one["metric"],
                    one["rows"],
                    Interval.from_json(one),
                    one["number"],
                )
                for one in json["slices"]
            ),
            baselines={k: _intervals_from_json(v) for k, v in json["baselines"].items()},
            gains={k: _intervals_from_json(v) for k, v in json["gains"].items()},
            curves=curves_from_json(json["curves"]),
            warnings=tuple(json["warnings"]),
        )


def evaluate(scored: Scored, metric: Metric, slices: Sequence[Slice], seed: int) -> Evaluation:
    """Measure the model, each slice and each baseline on the same resamples of the part.

    `metric` gives the confidence, the number of resamples and the options of single metrics.

    Raises:
        Mistake: a slice that the part's columns cannot answer.
    """
    found = find_slices(slices, scored.part.frame)
    answers = _answers(scored)
    asked = _Asked(scored, metric, seed)
    names = metric_names(answers[MODEL].classes)
    wanted = [slices[one.number].metric for one in found]
    of_slices = [metric.name if name == "auto" else name for name in wanted]
    assert all(name in METRICS for name in of_slices), "the plan has decided the metric"
    measured = {
        who: _measure_all(who_answers, names, asked) for who, who_answers in answers.items()
    }
    model = measured.pop(MODEL)
    by_slice = _measure_slices(answers[MODEL], found, of_slices, asked)
    metrics = {name: one.interval for name, one in model.items()}
    baselines = {
        who: {name: one.interval for name, one in each.items()} for who, each in measured.items()
    }
    labels = scored.target.names if isinstance(scored.target, Classes) else ()
    units = _units(asked.scored.part.units)
    return Evaluation(
        part=scored.part.name,
        rows=len(scored.part),
        units=units,
        confidence=metric.confidence,
        metrics=metrics,
        slices=by_slice,
        baselines=baselines,
        gains={who: _gains(model, each, asked) for who, each in measured.items()},
        curves=draw_curves(answers[MODEL], labels),
        warnings=(
            *scored.notes,
            *find_warnings(len(scored.part), units, metrics, baselines, scored.shares),
        ),
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    scored: Scored
    metric: Metric
    seed: int

    def draws(self) -> Draws:
        return Draws(self.scored.part.units, self.metric.resamples, self.seed)


@dataclass(frozen=True, slots=True)
class _Measured:
    """An interval with the resampled values [R] behind it."""

    interval: Interval
    values: Floats


def _answers(scored: Scored) -> dict[str, Answers]:
    positive = scored.target.positive if isinstance(scored.target, Classes) else 0
    given = {MODEL: scored.scores, **scored.baselines}
    return {who: answers_of(scored.part.target, each, positive) for who, each in given.items()}


def _measure_all(answers: Answers, names: Sequence[str], asked: _Asked) -> dict[str, _Measured]:
    rows = np.arange(len(answers))
    questions = [Question(rows, weigh(name, answers, asked.metric)) for name in names]
    values = resample(questions, asked.draws())
    return {
        name: _Measured(_interval(name, answers, asked.scored.part.units, each, asked), each)
        for name, each in zip(names, values, strict=True)
    }


def _measure_slices(
    answers: Answers, found: Sequence[SliceRows], names: Sequence[str], asked: _Asked
) -> tuple[SliceScore, ...]:
    parts = [answers.take(one.rows) for one in found]
    questions = [
        Question(one.rows, weigh(name, part, asked.metric) if len(part) else _nothing)
        for one, name, part in zip(found, names, parts, strict=True)
    ]
    values = resample(questions, asked.draws())
    units = asked.scored.part.units
    return tuple(
        SliceScore(
            one.name,
            name,
            len(one.rows),
            _interval(name, part, units[one.rows], each, asked),
            one.number,
        )
        for one, name, part, each in zip(found, names, parts, values, strict=True)
    )


def _nothing(weights: Floats) -> Floats:
    return np.full(len(weights), np.nan)


_SHARES = frozenset(
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
"""Metrics between 0 and 1 of which a perfect value is no proof of perfection."""

_OF_ALL = frozenset({"accuracy", "f1_weighted"})
_OF_POSITIVES = frozenset({"f1", "precision", "recall", "precision_at_recall", "average_precision"})


def _interval(
    name: str, answers: Answers, units: Integers, values: Floats, asked: _Asked
) -> Interval:
    value = measure(name, answers, asked.metric)
    confidence = asked.metric.confidence
    if name not in _SHARES:
        return interval_of(value, values, confidence, _units(units))
    return share_interval(value, values, confidence, _deciding_units(name, answers, units))


def _deciding_units(name: str, answers: Answers, units: Integers) -> int:
    """Units that the value rests on: of the positive class, or of the class that has fewest."""
    if name in _OF_ALL or not len(answers):
        return _units(units)
    if name in _OF_POSITIVES and answers.classes == 2:
        return _units(units[answers.is_positive()])
    return min(_units(units[answers.truth == code]) for code in np.unique(answers.truth))


def _units(units: Integers) -> int:
    return len(np.unique(units))


def _gains(
    model: Mapping[str, _Measured], baseline: Mapping[str, _Measured], asked: _Asked
) -> dict[str, Interval]:
    units = _units(asked.scored.part.units)
    return {
        name: interval_of(
            one.interval.value - baseline[name].interval.value,
            one.values - baseline[name].values,
            asked.metric.confidence,
            units,
        )
        for name, one in model.items()
    }


def _intervals_to_json(intervals: Intervals) -> Json:
    return {name: one.to_json() for name, one in intervals.items()}


def _intervals_from_json(json: Json) -> Intervals:
    return {name: Interval.from_json(one) for name, one in json.items()}
