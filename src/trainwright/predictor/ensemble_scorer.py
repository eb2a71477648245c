"""Scorer of an ensemble, whose models have features of their own.

It is the weighted mean of their scores (Caruana et al. 2004, doi:10.1145/1015330.1015432), or a
second level over them: one weight a candidate, on the scale on which models are linear (Wolpert
1992, Stacked generalization, doi:10.1016/S0893-6080(05)80023-1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Self, final, get_args

import numpy as np

from trainwright.core.files import Json, check_name, hash_value, read_json, write_json
from trainwright.data.base.inputs import Floats, Inputs
from trainwright.data.columns.target import Target
from trainwright.data.encoders.encoding import FrameEncoding
from trainwright.data.encoders.rows_encoder import FrameInputs
from trainwright.predictor.predictor import Predictor

Link = Literal["identity", "log", "softmax"]

_LEAST = 1e-9

MEMBERS = "members"
"""The folder of their bundles."""

_FILE = "ensemble.json"

_FORMAT, _STACK_FORMAT = 1, 2
"""Earlier versions would read a stack and take the weighted mean."""

_TOLERANCE = 1e-9


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


@final
@dataclass(frozen=True, slots=True)
class Member:
    """A model of an ensemble and its weight; the weights sum to 1. `group` names the candidate that
    it is of: models of several folds share one."""

    name: str
    group: str
    weight: float
    predictor: Predictor


@final
class EnsembleScorer:
    """Reads typed rows. Members whose encodings are equal share the encoded rows. With a second
    level, if there is one in `levels`, it combines the means of the groups."""

    kind: ClassVar[str] = "ensemble"

    def __init__(self, members: Sequence[Member], levels: Sequence[SecondLevel] = ()) -> None:
        assert members, "an ensemble has members"
        self.members, self.levels = tuple(members), tuple(levels)
        self._encodings = tuple(
            hash_value(member.predictor.features.to_json()) for member in self.members
        )

    def score(self, inputs: Inputs) -> Floats:
        """Scores [N, C] or [N, 1]."""
        frame = FrameInputs.of_kind(inputs).frame
        encoded: dict[str, Inputs] = {}
        found: list[Floats] = []
        for key, member in zip(self._encodings, self.members, strict=True):
            if key not in encoded:
                features = FrameEncoding.of_kind(member.predictor.features)
                encoded[key] = features.transform(frame)
            scores = np.asarray(member.predictor.score(encoded[key]), np.float64)
            found.append(member.weight * scores)
        for level in self.levels:
            return level.combine(self._means(found))
        return np.asarray(sum(found[1:], start=found[0]))

    def _means(self, weighted: Sequence[Floats]) -> dict[str, Floats]:
        """The mean of each group, of its members' scores times their weights."""
        found: dict[str, Floats] = {}
        for member, one in zip(self.members, weighted, strict=True):
            found[member.group] = found[member.group] + one if member.group in found else one
        return {group: one / self.weights[group] for group, one in found.items()}

    @property
    def weights(self) -> Mapping[str, float]:
        """The weight of each candidate."""
        found: dict[str, float] = {}
        for member in self.members:
            found[member.group] = found.get(member.group, 0.0) + member.weight
        return found

    def write(self, folder: Path) -> None:
        """Write `ensemble.json`; the members' own bundles are written by who writes this one."""
        listed: list[Json] = [
            {"name": one.name, "group": one.group, "weight": one.weight} for one in self.members
        ]
        content: dict[str, Json] = {"format": _FORMAT, "members": listed}
        for level in self.levels:
            content |= {"format": _STACK_FORMAT, "second_level": level.to_json()}
        write_json(folder / _FILE, content)


def read_ensemble(folder: Path, read_member: Callable[[Path], Predictor]) -> EnsembleScorer:
    """Read what `EnsembleScorer.write` wrote, and each member by `read_member`.

    Raises:
        KeyError, TypeError, ValueError: invalid content. Mistake: a member is no whole bundle, or
            its name is unsafe.
    """
    content = read_json(folder / _FILE)
    if content["format"] not in (_FORMAT, _STACK_FORMAT):
        raise ValueError(f"an ensemble of format {content['format']!r}, expected {_FORMAT}")
    members = []
    for one in content["members"]:
        name = check_name(str(one["name"]), "a member")
        predictor = read_member(folder / MEMBERS / name)
        members.append(Member(name, str(one["group"]), float(one["weight"]), predictor))
    weights = [member.weight for member in members]
    if not weights or not all(math.isfinite(each) and each > 0 for each in weights):
        raise ValueError("an ensemble whose weights are not above 0")
    if abs(math.fsum(weights) - 1) > _TOLERANCE:
        raise ValueError("an ensemble whose weights do not sum to 1")
    if content["format"] == _FORMAT:
        return EnsembleScorer(members)
    level = SecondLevel.from_json(content["second_level"])
    if set(level.weights) != {member.group for member in members}:
        raise ValueError("a second level of other models")
    return EnsembleScorer(members, (level,))
