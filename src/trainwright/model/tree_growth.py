"""Growth of trees in rounds, whatever the library: its state and what watches it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, final

from trainwright.core.files import Json
from trainwright.tracking.events import number_from_json, number_to_json

FEWEST_TREES = 2
"""Trees needed to continue: one that is grown again for verification, and one before it."""

CURVE_EVERY = 10
CURVE_SHARE = 0.2
"""Trees between two points of the training curve: a minimum, and a share of the trees so far,
because evaluating the training rows takes time."""


def next_point(trees: int) -> float:
    """Number of trees at which the next point of the curve is due."""
    return trees + max(CURVE_EVERY, CURVE_SHARE * trees)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Values of the watched metric after `trees` trees."""

    trees: int
    train: float
    validation: float


def curve_history(metric: str, curve: Iterable[CurvePoint]) -> tuple[Mapping[str, float], ...]:
    """The validations on a curve, as `LibraryFit` has them."""
    return tuple(
        {"step": at.trees, f"train_{metric}": at.train, f"val_{metric}": at.validation}
        for at in curve
    )


@final
@dataclass(frozen=True, slots=True)
class RuleEnding:
    """Ending by a stop rule of the caller: its kind, as in `StopReason`, and why."""

    kind: Literal["finished", "early", "budget", "interrupted", "halted"]
    text: str

    @property
    def is_final(self) -> bool:
        """Is training complete, rather than to be resumed?"""
        return self.kind in ("finished", "early", "budget")


@final
@dataclass(frozen=True, slots=True)
class Grown:
    """All trees in their library's text format, and the state of early stopping and of the curve.

    `rounds` were made; each that found a split added to the `trees` (with several classes, one per
    class). `value` is the validation value of the last round; it and `best_value` are NaN without
    validation rows. `is_done`: training is complete; `ended_by` is the stop rule of the caller that
    ended it, if one did.
    """

    text: str = ""
    trees: int = 0
    rounds: int = 0
    best_trees: int = 0
    best_round: int = 0
    best_value: float = math.nan
    value: float = math.nan
    next_point: float = 1.0
    curve: tuple[CurvePoint, ...] = ()
    is_done: bool = False
    ended_by: RuleEnding | None = None

    @property
    def is_provable(self) -> bool:
        """Did the last round grow the last tree, so that growing it again verifies the trees? While
        training continues, only such states are kept."""
        return self.trees >= FEWEST_TREES and (not self.is_done or self.rounds == self.trees)

    @property
    def kept(self) -> int:
        """Trees of the final model: up to the best iteration, or all."""
        return self.best_trees or self.trees

    def to_json(self) -> Json:
        """Strict JSON."""
        return {
            "text": self.text,
            "trees": self.trees,
            "rounds": self.rounds,
            "best_trees": self.best_trees,
            "best_round": self.best_round,
            "best_value": number_to_json(self.best_value),
            "value": number_to_json(self.value),
            "next_point": self.next_point,
            "curve": [
                [point.trees, number_to_json(point.train), number_to_json(point.validation)]
                for point in self.curve
            ],
            "is_done": self.is_done,
            "ended_by": [self.ended_by.kind, self.ended_by.text] if self.ended_by else None,
        }


NOTHING_GROWN = Grown()


def grown_from_json(values: Json) -> Grown:
    """Inverse of `to_json`; the library that grew the trees checks their text.

    Raises:
        ValueError, TypeError, KeyError: invalid content.
    """
    numbers = ("trees", "rounds", "best_trees", "best_round")
    trees, rounds, best_trees, best_round = (_count(values[name], name) for name in numbers)
    if not (1 <= trees <= rounds and best_trees <= trees and best_round <= rounds):
        raise ValueError("its counts of trees and rounds contradict each other")
    grown = Grown(
        text=str(values["text"]),
        trees=trees,
        rounds=rounds,
        best_trees=best_trees,
        best_round=best_round,
        best_value=number_from_json(values["best_value"]),
        value=number_from_json(values["value"]),
        next_point=number_from_json(values["next_point"]),
        curve=tuple(
            CurvePoint(_count(at, "curve"), number_from_json(train), number_from_json(value))
            for at, train, value in values["curve"]
        ),
        is_done=values["is_done"],
        # Absent in files of earlier versions.
        ended_by=_rule_ending(values.get("ended_by")),
    )
    if not isinstance(values["is_done"], bool) or not math.isfinite(grown.next_point):
        raise ValueError("is_done or next_point is not what was written")
    if grown.ended_by and not grown.is_done:
        raise ValueError("a rule has ended it, and it is not done")
    return grown


def _rule_ending(value: Json) -> RuleEnding | None:
    if value is None:
        return None
    is_pair = isinstance(value, list) and len(value) == 2
    if not (is_pair and all(isinstance(part, str) for part in value)):
        raise ValueError("ended_by is not what was written")
    ending = RuleEnding(*value)
    if not ending.is_final:
        raise ValueError(f"ended_by {ending.kind!r:.20} is no ending")
    return ending


def _count(value: Json, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} is not a count")
    return value


class OtherTrees(Exception):
    """The kept trees or their values do not reproduce here; the message says which."""


class Left(Exception):
    """Training was interrupted before it reached its kept trees."""


class Keeper(Protocol):
    """Keeps the trees grown so far. It decides when, and must not change what it receives."""

    def is_due(self) -> bool:
        """Are trees to be kept now?"""
        ...

    def keep(self, grow: Callable[[], Grown]) -> None:
        """Keep the result of `grow`."""
        ...


@final
class KeepsNothing:
    """Keeps nothing: training that starts again if interrupted."""

    def is_due(self) -> bool:
        """Never."""
        return False

    def keep(self, grow: Callable[[], Grown]) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Watching:
    """Monitoring of tree growth: progress reports, stopping, and keeping trees.

    `tell` receives the number of trees and the validation value. `should_stop` is called after each
    round: the trees grown until then are kept up to the best one. So is `is_interrupted`: training
    ends now, to be continued later.
    """

    tell: Callable[[int, float], None] = lambda _trees, _value: None
    should_stop: Callable[[], bool] = lambda: False
    is_interrupted: Callable[[], bool] = lambda: False
    keeper: Keeper = field(default_factory=KeepsNothing)
