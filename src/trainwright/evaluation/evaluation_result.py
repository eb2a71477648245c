"""Result of an evaluation: metrics with intervals, of slices and targets; clauses and their
status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from trainwright.contract.sections.metric import Direction
from trainwright.core.files import Json
from trainwright.core.formatting import show_number
from trainwright.evaluation.curves.plot_data import Curves, curves_from_json, curves_to_json
from trainwright.evaluation.intervals.bootstrap import Interval, method_of

Intervals = Mapping[str, Interval]

ALL_ROWS = "all rows"


@dataclass(frozen=True, slots=True)
class SliceScore:
    """A metric on one slice. `number` is the position of its slice in the contract."""

    name: str
    metric: str
    rows: int
    interval: Interval
    number: int


@dataclass(frozen=True, slots=True)
class TargetScore:
    """One of several targets by itself: the model's metrics, those of each baseline, and the paired
    gains over it."""

    name: str
    metrics: Intervals
    baselines: Mapping[str, Intervals]
    gains: Mapping[str, Intervals]

    def to_json(self) -> Json:
        """Plain JSON; undefined values are null."""
        return {
            "name": self.name,
            "metrics": _intervals_to_json(self.metrics),
            "baselines": {k: _intervals_to_json(v) for k, v in self.baselines.items()},
            "gains": {k: _intervals_to_json(v) for k, v in self.gains.items()},
        }

    @staticmethod
    def from_json(json: Json) -> TargetScore:
        """The inverse of `to_json`."""
        return TargetScore(
            json["name"],
            _intervals_from_json(json["metrics"]),
            {k: _intervals_from_json(v) for k, v in json["baselines"].items()},
            {k: _intervals_from_json(v) for k, v in json["gains"].items()},
        )


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Results on one part.

    `baselines` holds the metrics of each baseline, `gains` the model's value minus the baseline's
    with the interval of that difference over the same resamples (paired). `method` says how the
    intervals were found. `targets` holds several targets, each by itself.
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
    method: str = ""
    targets: tuple[TargetScore, ...] = ()

    def to_json(self) -> Json:
        """Plain JSON; undefined values are null."""
        return {
            "part": self.part,
            "rows": self.rows,
            "units": self.units,
            "confidence": self.confidence,
            "intervals": self.method or method_of(self.units),
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
            **({"targets": [one.to_json() for one in self.targets]} if self.targets else {}),
        }

    def show_baselines(self, metric: str) -> list[str]:
        """`linear 0.8123`: the value of each baseline as text."""
        return [
            f"{name} {show_number(metrics[metric].value)}"
            for name, metrics in self.baselines.items()
            if metric in metrics
        ]

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
            method=json.get("intervals", ""),
            targets=tuple(map(TargetScore.from_json, json.get("targets", ()))),
        )


def _intervals_to_json(intervals: Intervals) -> Json:
    return {name: one.to_json() for name, one in intervals.items()}


def _intervals_from_json(json: Json) -> Intervals:
    return {name: Interval.from_json(one) for name, one in json.items()}


Status = Literal["met", "missed", "undecided"]

DUMMY, LINEAR = "dummy", "linear"
"""The baselines of every run."""

BM25 = "bm25"
"""The usual score of words that query and passage share."""

COLOURS = "colours"
"""A linear model of the colour statistics of images."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One requirement of the contract. `slice` is "all rows" or a slice's name. For a gain over a
    baseline, `against` is its name, `interval` that of the difference (model minus baseline) and
    `target` 0.
    """

    name: str
    metric: str
    slice: str
    target: float
    interval: Interval
    status: Status
    against: str = ""

    def to_json(self) -> Json:
        """Plain JSON; missing bounds are null."""
        return {
            "name": self.name,
            "metric": self.metric,
            "slice": self.slice,
            "target": self.target,
            "status": self.status,
            "against": self.against,
            **self.interval.to_json(),
        }

    @staticmethod
    def from_json(json: Json) -> Clause:
        """The inverse of `to_json`; older versions had one baseline, named in the clause.

        Raises:
            ValueError: a status that there is not. KeyError, TypeError, AttributeError: something
                is missing or of another type.
        """
        if json["status"] not in get_args(Status):
            raise ValueError(f"a clause has the status {json['status']!r:.40}")
        older = DUMMY if json["name"].startswith(f"{json['metric']} minus baseline") else ""
        return Clause(
            str(json["name"]),
            str(json["metric"]),
            str(json["slice"]),
            float(json["target"]),
            Interval.from_json(json),
            json["status"],
            str(json.get("against", older)),
        )


def status_of(interval: Interval, target: float, direction: Direction) -> Status:
    """Met if the whole interval reaches the target, missed if all of it is worse, otherwise
    undecided."""
    if not interval.given:
        return "undecided"
    if direction == "max":
        if interval.low >= target:
            return "met"
        return "missed" if interval.high < target else "undecided"
    if interval.high <= target:
        return "met"
    return "missed" if interval.low > target else "undecided"


def gain_status(interval: Interval, direction: Direction) -> Status:
    """Met if the whole interval of a difference is better than 0, missed if none of it is,
    otherwise undecided."""
    if not interval.given:
        return "undecided"
    if direction == "max":
        if interval.low > 0:
            return "met"
        return "missed" if interval.high <= 0 else "undecided"
    if interval.high < 0:
        return "met"
    return "missed" if interval.low >= 0 else "undecided"
