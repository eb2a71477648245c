"""Scores of answered questions: metrics with intervals over questions, differences from baselines
and other models, and the clause of the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
import numpy.typing as npt

from trainwright.contract.sections.metric import OF_ANSWERS, OF_CHOICES, Metric, QuestionSet
from trainwright.core.files import Json
from trainwright.data.base.inputs import Floats, Integers
from trainwright.evaluation.clause import Clause, gain_status, status_of
from trainwright.evaluation.evaluate import MODEL
from trainwright.evaluation.intervals.bootstrap import (
    Interval,
    Question,
    Resampling,
    interval_of,
    resample,
    share_interval,
)
from trainwright.evaluation.intervals.resampled_metrics import ResampledMetric, gain_of
from trainwright.evaluation.metrics.answer_values import Values
from trainwright.evaluation.metrics.predictions import count_units, ratio
from trainwright.evaluation.metrics.weighted_metrics import Sums

Intervals = Mapping[str, Interval]


@final
@dataclass(frozen=True, slots=True)
class AnsweredSet:
    """Answers to N questions. `values` are those of the model, `beside` those of the baselines and
    of other models, by name; `units` [N] are what the bootstrap draws, `contaminated` bool [N] the
    questions found in the training text, `slices` [N] the value of each column."""

    name: str
    values: Values
    beside: Mapping[str, Values]
    units: Integers
    contaminated: npt.NDArray[np.bool_]
    slices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    samples: tuple[Json, ...] = ()
    notes: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class QuestionScores:
    """What `evaluation.json` keeps of a set of questions. `clean` is the judged metric without the
    contaminated questions, and how many those are; `gains` are the model minus each baseline or
    other model, paired; `slices` are (column=value, questions, value of the metric)."""

    name: str
    metric: str
    questions: int
    units: int
    metrics: Intervals
    beside: Mapping[str, Intervals]
    gains: Mapping[str, Intervals]
    contaminated: int
    clean: Interval
    slices: tuple[tuple[str, int, Interval], ...]
    samples: tuple[Json, ...]
    notes: tuple[str, ...]

    def to_json(self) -> Json:
        """Plain JSON; undefined values are null."""
        return {
            "name": self.name,
            "metric": self.metric,
            "questions": self.questions,
            "units": self.units,
            "metrics": _to_json(self.metrics),
            "baselines": {who: _to_json(each) for who, each in self.beside.items()},
            "gains": {who: _to_json(each) for who, each in self.gains.items()},
            "contaminated": self.contaminated,
            "clean": self.clean.to_json(),
            "slices": [
                {"name": name, "questions": rows, **one.to_json()}
                for name, rows, one in self.slices
            ],
            "samples": list(self.samples),
            "notes": list(self.notes),
        }

    @staticmethod
    def from_json(json: Json) -> QuestionScores:
        """The inverse of `to_json`."""
        return QuestionScores(
            str(json["name"]),
            str(json["metric"]),
            int(json["questions"]),
            int(json["units"]),
            _from_json(json["metrics"]),
            {who: _from_json(each) for who, each in json["baselines"].items()},
            {who: _from_json(each) for who, each in json["gains"].items()},
            int(json["contaminated"]),
            Interval.from_json(json["clean"]),
            tuple(
                (str(one["name"]), int(one["questions"]), Interval.from_json(one))
                for one in json["slices"]
            ),
            tuple(json["samples"]),
            tuple(map(str, json["notes"])),
        )


def metric_of(section: QuestionSet, values: Values) -> str:
    """The judged metric of a set."""
    if section.metric != "auto":
        return section.metric
    return OF_CHOICES[0] if OF_CHOICES[0] in values else OF_ANSWERS[0]


@final
class QuestionResamples:
    """Means over some of the questions of a set on shared resamples."""

    def __init__(
        self, answered: AnsweredSet, section: Metric, seed: int, rows: Integers | None = None
    ) -> None:
        everything = np.arange(len(answered.units))
        self.rows = everything if rows is None else rows
        self._confidence = section.confidence
        self._units = count_units(answered.units[self.rows]) if len(self.rows) else 0
        whose = {MODEL: answered.values, **answered.beside}
        keys = [(who, name) for who, each in whose.items() for name in answered.values]
        questions = [
            Question(self.rows, Sums(whose[who][name][self.rows], ratio)) for who, name in keys
        ]
        draws = Resampling(answered.units, section.resamples, seed)
        found = zip(keys, questions, resample(questions, draws), strict=True)
        self._found = {key: self._measured(one, values) for key, one, values in found}

    def _measured(self, question: Question, values: Floats) -> ResampledMetric:
        whole = np.ones((1, len(question.rows)))
        value = float(question.weighted(whole)[0]) if len(question.rows) else float("nan")
        bound = share_interval(value, values, self._confidence, self._units)
        return ResampledMetric(bound, values, self._units)

    def metric(self, name: str, who: str = MODEL) -> ResampledMetric:
        """A metric of the model, or of what stands beside it."""
        return self._found[who, name]

    def gain(self, name: str, who: str) -> Interval:
        """The model minus another, paired."""
        return gain_of(self.metric(name), self.metric(name, who), self._confidence)

    def difference(self, name: str, other: QuestionResamples) -> Interval:
        """A metric of the model here minus that on other questions, on the same resamples."""
        here, there = self.metric(name), other.metric(name)
        value = here.interval.value - there.interval.value
        return interval_of(value, here.values - there.values, self._confidence, here.units)


def score_questions(
    answered: AnsweredSet, section: QuestionSet, metric: Metric, seed: int
) -> tuple[QuestionScores, QuestionResamples, QuestionResamples]:
    """Scores of a set; its resamples, and those without the contaminated questions. `metric` gives
    confidence and resamples."""
    judged = metric_of(section, answered.values)
    every = QuestionResamples(answered, metric, seed)
    clean = QuestionResamples(answered, metric, seed, np.flatnonzero(~answered.contaminated))
    names = list(answered.values)
    scores = QuestionScores(
        name=answered.name,
        metric=judged,
        questions=len(answered.units),
        units=count_units(answered.units),
        metrics={name: every.metric(name).interval for name in names},
        beside={
            who: {name: every.metric(name, who).interval for name in names}
            for who in answered.beside
        },
        gains={who: {name: every.gain(name, who) for name in names} for who in answered.beside},
        contaminated=int(answered.contaminated.sum()),
        clean=clean.metric(judged).interval,
        slices=tuple(_slices(answered, judged, metric, seed)),
        samples=answered.samples,
        notes=answered.notes,
    )
    return scores, every, clean


def clauses_of(
    section: QuestionSet,
    name: str,
    judged: str,
    resamples: QuestionResamples,
    against: Sequence[str],
) -> tuple[Clause, ...]:
    """The clauses of a set of questions. `against` are its baselines, the first of them chance; one
    that is better than the model is a clause, whatever the target."""
    if section.target == "none":
        return ()
    gains = {who: _gain_clause(judged, name, who, resamples.gain(judged, who)) for who in against}
    if section.target == "every_baseline":
        return tuple(gains.values())
    better = [one for one in gains.values() if one.status == "missed" and one.interval.value < 0]
    if isinstance(section.target, float):
        interval = resamples.metric(judged).interval
        status = status_of(interval, section.target, "max")
        said = f"{judged} >= {section.target:g} on {name}"
        return (Clause(said, judged, name, section.target, interval, status), *better)
    chance = gains[against[0]]
    return (chance, *(one for one in better if one is not chance))


def _gain_clause(judged: str, name: str, who: str, gain: Interval) -> Clause:
    said = f"{judged} minus {who} > 0 on {name}"
    return Clause(said, judged, name, 0.0, gain, gain_status(gain, "max"), who)


def _slices(
    answered: AnsweredSet, judged: str, metric: Metric, seed: int
) -> list[tuple[str, int, Interval]]:
    found = []
    for column, values in answered.slices.items():
        cells = np.array(values, dtype=object)
        for value in sorted(set(values)):
            rows = np.flatnonzero(cells == value)
            part = QuestionResamples(answered, metric, seed, rows)
            found.append((f"{column}={value}", len(rows), part.metric(judged).interval))
    return found


def _to_json(intervals: Intervals) -> Json:
    return {name: one.to_json() for name, one in intervals.items()}


def _from_json(json: Json) -> dict[str, Interval]:
    return {str(name): Interval.from_json(one) for name, one in json.items()}
