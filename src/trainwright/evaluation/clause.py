"""Clauses of the contract and their status given an interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from trainwright.contract.sections.metric import Direction
from trainwright.core.files import Json
from trainwright.evaluation.intervals.bootstrap import Interval

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
