"""One thing that a contract asks for, and whether an interval grants it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainwright.contract.metric import Direction
from trainwright.core.files import Json
from trainwright.evaluation.intervals import Interval

Status = Literal["met", "missed", "undecided"]

DUMMY, LINEAR = "dummy", "linear"
"""The baselines of every run."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One thing the contract asks for. `slice` is "all rows" or a slice's name.

    Where it asks to be better than a baseline, `against` is the name of that one, `interval` that
    of the difference (model minus baseline) and `target` 0.
    """

    name: str
    metric: str
    slice: str
    target: float
    interval: Interval
    status: Status
    against: str = ""

    def to_json(self) -> Json:
        """Plain JSON; bounds that are not given are null."""
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
        """The inverse of `to_json`; older versions knew of one baseline only, and named it so."""
        older = DUMMY if json["name"].startswith(f"{json['metric']} minus baseline") else ""
        return Clause(
            json["name"],
            json["metric"],
            json["slice"],
            json["target"],
            Interval.from_json(json),
            json["status"],
            json.get("against", older),
        )


def status_of(interval: Interval, target: float, direction: Direction) -> Status:
    """Whether the whole interval is at the target or better, wholly worse, or neither."""
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
    """Whether a difference is wholly better than 0, wholly not better, or neither."""
    if not interval.given:
        return "undecided"
    if direction == "max":
        if interval.low > 0:
            return "met"
        return "missed" if interval.high <= 0 else "undecided"
    if interval.high < 0:
        return "met"
    return "missed" if interval.low >= 0 else "undecided"
