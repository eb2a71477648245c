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
    | {"ft_transformer": 4.0}
)
"""Shares of candidates whose score grows with the time that they get, where others have 1."""


@final
class TimeLeft:
    """Divided among the candidates that are left, most to those that improve most with time: what
    one leaves over goes to those after it. `used` are the seconds of the selection until now, those
    of earlier attempts included."""

    def __init__(
        self, limit_seconds: float, names: Sequence[str], used: Callable[[], float]
    ) -> None:
        self._limit = (1 - _RESERVE) * limit_seconds
        self._names = list(names)
        self.used = used

    @property
    def seconds(self) -> float:
        """Left for all candidates; infinite without a budget."""
        return max(0.0, self._limit - self.used())

    def share(self, name: str) -> float:
        """Seconds of a candidate; those before it are finished."""
        if name not in self._names or math.isinf(self._limit):
            return self.seconds
        left = [_WEIGHTS.get(one, 1.0) for one in self._names[self._names.index(name) :]]
        return self.seconds * left[0] / sum(left)
