"""The time of a selection, divided among its candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import final

_RESERVE = 0.06
"""Share of the time that is kept for comparing and for the ensemble."""

_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"boosting": 3.0, "xgboost": 3.0, "catboost": 3.0, "mlp": 2.0, "tabular_resnet": 2.0}
    | {"ft_transformer": 4.0, "forest": 2.0, "extra_trees": 2.0}
)
"""Shares of candidates whose score grows with the time that they get, where others have 1."""


def weighed(names: Sequence[str]) -> dict[str, float]:
    """What candidates get of the time, relative to each other."""
    return {name: _WEIGHTS.get(name, 1.0) for name in names}


@final
@dataclass(frozen=True, slots=True)
class SecondTraining:
    """What a second training of the kept candidates needs: `factor` seconds for each second of the
    first, `kept` the seconds of the first trainings of those that would be kept by now."""

    factor: float
    kept: Callable[[], float]


NO_SECOND = SecondTraining(0.0, lambda: 0.0)


@final
class TimeLeft:
    """Divided among the candidates that are left by their weights: what one leaves over goes to
    those after it. `used` are the seconds of the selection until now, those of earlier attempts
    included. What a second training of what would be kept takes is put aside, and a candidate gets
    no more than leaves room for its own."""

    def __init__(
        self,
        limit_seconds: float,
        weights: Mapping[str, float],
        used: Callable[[], float],
        second: SecondTraining = NO_SECOND,
    ) -> None:
        self._limit = (1 - _RESERVE) * limit_seconds
        self._weights = weights
        self._second = second
        self.used = used

    @property
    def seconds(self) -> float:
        """Left for all candidates; infinite without a budget."""
        if math.isinf(self._limit):
            return self._limit
        aside = self._second.factor * self._second.kept() if self._second.factor else 0.0
        return max(0.0, self._limit - self.used() - aside)

    def share(self, name: str) -> float:
        """Seconds of a candidate; those before it are finished."""
        names = list(self._weights)
        if name not in names or math.isinf(self._limit):
            return self.seconds
        left = [self._weights[one] for one in names[names.index(name) :]]
        return self.seconds * left[0] / sum(left) / (1 + self._second.factor)
