"""Trees grown so far, with all state needed to continue training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import lightgbm

from trainwright.core.files import Json
from trainwright.model.boosting.lightgbm_text import check_model_text
from trainwright.tracking.events import number_from_json, number_to_json

CURVE_EVERY = 10
CURVE_SHARE = 0.2
"""Trees between two points of the training curve: a minimum, and a share of the trees so far,
because evaluating the training rows takes time."""

FEWEST_TREES = 2
"""Trees needed to continue: one that is grown again for verification, and one before it."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Values of the watched metric after `trees` trees."""

    trees: int
    train: float
    validation: float


@final
@dataclass(frozen=True, slots=True)
class Grown:
    """All trees in LightGBM's text format, and the state of early stopping and of the curve.

    `rounds` were made; each that found a split added to the `trees` (with several classes, one per
    class). `value` is the validation value of the last round; it and `best_value` are NaN without
    validation rows. `is_done`: training is complete.
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

    @property
    def is_provable(self) -> bool:
        """Did the last round grow the last tree, so that growing it again verifies the trees? While
        training continues, only such states are kept."""
        return self.trees >= FEWEST_TREES and (not self.is_done or self.rounds == self.trees)

    @property
    def kept(self) -> int:
        """Trees of the final model: up to the best iteration, or all."""
        return self.best_trees or self.trees

    def booster(self) -> lightgbm.Booster:
        """Booster for predictions."""
        return lightgbm.Booster(model_str=self.text)

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
        }


NOTHING_GROWN = Grown()


def read_grown(values: Json, outputs: int) -> Grown:
    """Inverse of `to_json`, for a model of `outputs` classes, or regression (1).

    Raises:
        ValueError, TypeError, KeyError: invalid content. LightGBM has not read it yet.
    """
    text = str(values["text"])
    check_model_text(text, outputs)
    numbers = ("trees", "rounds", "best_trees", "best_round")
    trees, rounds, best_trees, best_round = (_count(values[name], name) for name in numbers)
    if not (1 <= trees <= rounds and best_trees <= trees and best_round <= rounds):
        raise ValueError("its counts of trees and rounds contradict each other")
    grown = Grown(
        text=text,
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
    )
    if not isinstance(values["is_done"], bool) or not math.isfinite(grown.next_point):
        raise ValueError("is_done or next_point is not what was written")
    try:
        held = grown.booster().current_iteration()
    except lightgbm.basic.LightGBMError as error:
        raise ValueError(f"LightGBM cannot read it: {error}") from error
    if held != trees:
        raise ValueError(f"it does not hold the {trees} trees that it names")
    return grown


def round_text(booster: Any, number: int) -> str:
    """Trees added by a round, in LightGBM's text format; rounds count from 0."""
    text = str(booster.model_to_string(start_iteration=number, num_iteration=1))
    return text[text.index("Tree=0") : text.index("end of trees")]


def _count(value: Json, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} is not a count")
    return value
