"""Scorer of an ensemble, whose models have features of their own: their weighted mean (Caruana et
al. 2004, doi:10.1145/1015330.1015432), or a second level over it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

import numpy as np

from trainwright.core.files import Json, read_json, write_json
from trainwright.core.hashing import hash_value
from trainwright.core.paths import check_name
from trainwright.data.base.table import Floats, Inputs
from trainwright.data.encoders.encoding import FrameEncoding
from trainwright.data.encoders.rows_encoder import FrameInputs
from trainwright.predictor.predictor import Predictor
from trainwright.predictor.second_level import SecondLevel

MEMBERS = "members"
"""The folder of their bundles."""

_FILE = "ensemble.json"
_FORMAT, _STACK_FORMAT = 1, 2
"""Earlier versions would read a stack and take the weighted mean."""

_TOLERANCE = 1e-9


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
