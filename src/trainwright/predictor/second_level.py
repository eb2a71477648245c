"""Second level of a stack: one weight a candidate, on the scale on which models are linear (Wolpert
1992, Stacked generalization, doi:10.1016/S0893-6080(05)80023-1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self, final, get_args

import numpy as np

from trainwright.core.files import Json
from trainwright.data.base.table import Floats
from trainwright.data.columns.target_kind import Target

Link = Literal["identity", "log", "softmax"]

_LEAST = 1e-9


@final
@dataclass(frozen=True, slots=True)
class SecondLevel:
    """link(s) = intercept + sum over candidates of weight x link(their score). `softmax`: the
    logarithms of probabilities, with an intercept a class; `log`: those of rates; `identity`:
    values. No weight is below 0 (Breiman 1996, Stacked regressions, doi:10.1007/BF00117832)."""

    link: Link
    intercept: tuple[float, ...]
    weights: Mapping[str, float]

    def combine(self, scores: Mapping[str, Floats]) -> Floats:
        """Scores [N, C] or [N, 1] of those of the candidates.

        Raises:
            ValueError: they have other columns.
        """
        if any(one.shape[1] != len(self.intercept) for one in scores.values()):
            raise ValueError("a second level of other outputs")
        linear = sum(
            # In an order that a file does not change.
            (
                self.weights[name] * to_linear(self.link, scores[name])
                for name in sorted(self.weights)
            ),
            start=np.array(self.intercept, np.float64),
        )
        return from_linear(self.link, np.asarray(linear))

    @property
    def shares(self) -> dict[str, float]:
        """Weights of the candidates that it uses, divided by their sum."""
        total = math.fsum(self.weights.values())
        return {name: weight / total for name, weight in self.weights.items() if weight > 0}

    def to_json(self) -> Json:
        """The fields by name."""
        weights = dict(self.weights)
        return {"link": self.link, "intercept": list(self.intercept), "weights": weights}

    @classmethod
    def from_json(cls, json: Json) -> Self:
        """Inverse of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: invalid content.
        """
        weights = {str(name): float(weight) for name, weight in json["weights"].items()}
        found = cls(json["link"], tuple(map(float, json["intercept"])), weights)
        if found.link not in get_args(Link):
            raise ValueError(f"a second level with the link {found.link!r}")
        numbers = (*found.intercept, *weights.values())
        if not weights or not all(map(math.isfinite, numbers)) or min(weights.values()) <= 0:
            raise ValueError("a second level whose weights are not above 0")
        return found


def link_of(target: Target) -> Link:
    """The scale of a target's scores."""
    if target.classes:
        return "softmax"
    return "log" if target.is_count else "identity"


def to_linear(link: Link, scores: Floats) -> Floats:
    """Scores on the scale on which they are added."""
    exact = np.asarray(scores, np.float64)
    return exact if link == "identity" else np.asarray(np.log(np.maximum(exact, _LEAST)))


def from_linear(link: Link, linear: Floats) -> Floats:
    """Inverse of `to_linear`; probabilities sum to 1."""
    match link:
        case "identity":
            return linear
        case "log":
            return np.exp(np.clip(linear, -300.0, 300.0))
        case "softmax":
            powers = np.exp(linear - linear.max(axis=1, keepdims=True, initial=-np.inf))
            return np.asarray(powers / powers.sum(axis=1, keepdims=True))
