"""The time of a selection, divided among its candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
class TimeLeft:
    """Divided among the candidates that are left by their weights: what one leaves over goes to
    those after it. `used` are the seconds of the selection until now, those of earlier attempts
    included. A second training of what is kept needs `factor` seconds for each second of the first,
    0 without one: those are put aside, and a candidate gets no more than leaves room for its
    own."""

    def __init__(
        self,
        limit_seconds: float,
        weights: Mapping[str, float],
        used: Callable[[], float],
        factor: float = 0.0,
    ) -> None:
        self._limit = (1 - _RESERVE) * limit_seconds
        self._weights = weights
        self._factor = factor
        self._aside = 0.0
        self.used = used

    @property
    def seconds(self) -> float:
        """Left for all candidates; infinite without a budget."""
        return max(0.0, self._limit - self.used() - self._aside)

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
