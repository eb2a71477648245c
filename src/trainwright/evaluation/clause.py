"""One thing that a contract asks for, and whether an interval grants it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainwright.contract.metric import Direction
from trainwright.core.files import Json
from trainwright.evaluation.intervals import Interval

Status = Literal["met", "missed", "undecided"]


@dataclass(frozen=True, slots=True)
class Clause:
    """One thing the contract asks for. `slice` is "all rows" or a slice's name.

    Against a baseline, `interval` is that of the difference (model minus baseline) and `target` 0.
    """

    name: str
    metric: str
    slice: str
    target: float
    interval: Interval
    status: Status

    @property
    def is_gain(self) -> bool:
        """Whether it asks to be better than a baseline."""
        return self.name.startswith(f"{self.metric} minus ")

    @property
    def baseline(self) -> str:
        """The baseline that it asks to be better than, if it does."""
        word = self.name.removeprefix(f"{self.metric} minus ").split(" ")[0]
        return "dummy" if word == "baseline" else word

    def to_json(self) -> Json:
        """Plain JSON; bounds that are not given are null."""
        return {
            "name": self.name,
            "metric": self.metric,
            "slice": self.slice,
            "target": self.target,
            "status": self.status,
            **self.interval.to_json(),
        }

    @staticmethod
    def from_json(json: Json) -> Clause:
        """The inverse of `to_json`."""
        return Clause(
            json["name"],
            json["metric"],
            json["slice"],
            json["target"],
            Interval.from_json(json),
            json["status"],
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
