"""Trees that are grown so far, with all that their growing goes on from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import lightgbm

from trainwright.core.files import Json
from trainwright.model.lightgbm_text import check_model_text
from trainwright.tracking.events import number_from_json, number_to_json

CURVE_EVERY = 10
CURVE_SHARE = 0.2
"""Trees between two points of the training curve: at least so many, and a share of those there are,
because measuring the training rows costs time."""

FEWEST_TREES = 2
"""To go on from: one that is grown again as proof, and one before it."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Values of the watched metric after `trees` trees."""

    trees: int
    train: float
    validation: float


@final
@dataclass(frozen=True, slots=True)
class Grown:
    """All trees as LightGBM's text, and the state of early stopping and of the curve.

    `rounds` were made, of which each that found a split added to the `trees` (of several classes
    one a class). `value` is the validation value of the last round; it and `best_value` are NaN
    without validation rows. `is_done`: the growing came to its end.
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
        """Whether its last round grew the last tree, so that growing it again proves the trees. Of
        what is still growing nothing else is kept."""
        return self.trees >= FEWEST_TREES and (not self.is_done or self.rounds == self.trees)

    @property
    def kept(self) -> int:
        """The trees that the model is to have: up to the best one, or all."""
        return self.best_trees or self.trees

    def booster(self) -> lightgbm.Booster:
        """The trees for predictions."""
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
    """Undo `to_json`, for a model of `outputs` classes, or of numbers (1).

    Raises:
        ValueError, TypeError, KeyError: it is not what was written; LightGBM has not read it.
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
        raise ValueError(f"LightGBM does not read it: {error}") from error
    if held != trees:
        raise ValueError(f"it does not hold the {trees} trees that it names")
    return grown


def round_text(booster: Any, number: int) -> str:
    """The trees that a round has added, as LightGBM's text; rounds count from 0."""
    text = str(booster.model_to_string(start_iteration=number, num_iteration=1))
    return text[text.index("Tree=0") : text.index("end of trees")]


def _count(value: Json, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} is not a count")
    return value
