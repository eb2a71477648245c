"""The time of a selection, divided among its candidates, and what it leaves of each.

What the time leaves of a candidate: fewer epochs, or fewer trees of a forest. Decided once: a
resumed training, and a second one, keep it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Self, final

from trainwright.core.files import Json, damage_in, read_json, write_json
from trainwright.planner.plan import Plan

RESERVE = 0.06
"""Share of the time that is kept for comparing and for the ensemble."""

_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"boosting": 3.0, "xgboost": 3.0, "catboost": 3.0, "mlp": 2.0, "tabular_resnet": 2.0}
    | {"linear": 10.0, "ft_transformer": 4.0, "forest": 2.0, "extra_trees": 2.0}
)
"""Shares of candidates whose score grows with the time that they get, where others have 1. The
linear model, a baseline of every run, is not to be skipped, and leaves over what it does not
need."""

_FILE = "cut.json"


def weighed(names: Sequence[str]) -> dict[str, float]:
    """What candidates get of the time, relative to each other."""
    return {name: _WEIGHTS.get(name, 1.0) for name in names}


@final
class TimeLeft:
    """Divided among the candidates that are left by their weights: what one leaves over goes to
    those after it. `used` are the seconds of the selection until now, those of earlier attempts
    included. A second training of what is kept needs `factor` seconds for each second of the first,
    0 without one: those are put aside, and a candidate gets no more than leaves room for its
    own. `delay` are the seconds by which all of it has to end sooner."""

    def __init__(
        self,
        limit_seconds: float,
        weights: Mapping[str, float],
        used: Callable[[], float],
        factor: float = 0.0,
        delay: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._limit = (1 - RESERVE) * limit_seconds
        self._weights = weights
        self._factor = factor
        self._aside = 0.0
        self._delay = delay
        self.used = used

    @property
    def seconds(self) -> float:
        """Left for all candidates; infinite without a budget."""
        return max(0.0, self._limit - self.used() - self._aside - self._delay())

    @property
    def has_second(self) -> bool:
        """Is there a limit that a second training shares?"""
        return self._factor > 0 and math.isfinite(self._limit)

    def put_aside(self, kept: float) -> None:
        """Keep time for the second training of what took so many seconds and would be kept now."""
        self._aside = self._factor * kept

    def share(self, name: str) -> float:
        """Seconds of a candidate; those before it are finished."""
        names = list(self._weights)
        if name not in names or math.isinf(self._limit):
            return self.seconds
        left = [self._weights[one] for one in names[names.index(name) :]]
        return self.seconds * left[0] / sum(left) / (1 + self._factor)


@final
@dataclass(frozen=True, slots=True)
class Cut:
    """Settings of `model` or `training` by their path, and in words what they leave; nothing if all
    fits. `share` is what they leave of a library's training, if more of it is the same model with
    less noise; 0 if not."""

    settings: Mapping[str, Json] = field(default_factory=dict)
    said: str = ""
    share: float = 0.0

    def of_plan(self, plan: Plan) -> Plan:
        """A plan with these settings."""
        for path, value in self.settings.items():
            section, key = path.split(".")
            part = getattr(plan.contract, section).model_copy(update={key: value})
            contract = plan.contract.model_copy(update={section: part})
            plan = replace(plan, contract=contract)
        return plan

    def write(self, folder: Path) -> None:
        """Write `cut.json` of a training's folder.

        Raises:
            StorageFailed: the disk.
        """
        content = {"settings": dict(self.settings), "said": self.said, "share": self.share}
        write_json(folder / _FILE, content)

    @classmethod
    def from_json(cls, json: Json) -> Self:
        """What `write` wrote."""
        return cls(dict(json["settings"]), str(json["said"]), float(json.get("share", 0.0)))


UNCUT = Cut()


def is_decided(folder: Path) -> bool:
    """Is it known what the time leaves of this training?"""
    return (folder / _FILE).is_file()


def read_cut(folder: Path) -> Cut:
    """What was decided for the training of a folder; nothing is cut if it says nothing."""
    path = folder / _FILE
    if not path.is_file():
        return UNCUT
    with damage_in(path):
        return Cut.from_json(read_json(path))
