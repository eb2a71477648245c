"""Result of an evaluation: metrics with intervals, of slices and targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
