"""The time of a selection, divided among its candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import final

from trainwright.contract.sections.model.traits import ModelSection
from trainwright.planner.plan import Plan

_RESERVE = 0.06
"""Share of the time that is kept for comparing and for the ensemble."""

_LONG, _SHORT = 4.0, 2.0


@final
class TimeLeft:
    """What a candidate leaves over goes to those after it. `used` are the seconds of the selection
    until now, those of earlier attempts included."""

    def __init__(
        self, limit_seconds: float, plans: Mapping[str, Plan], used: Callable[[], float]
    ) -> None:
        self._limit = (1 - _RESERVE) * limit_seconds
        self._weights = {name: _weight(one.contract.model) for name, one in plans.items()}
        self.used = used

    @property
    def seconds(self) -> float:
        """Left for all candidates; infinite without a budget."""
        return max(0.0, self._limit - self.used())

    def share(self, name: str) -> float:
        """Seconds of a candidate; those before it are finished. One that stops itself when it is
        no longer getting better has a larger share."""
        if name not in self._weights or math.isinf(self._limit):
            return self.seconds
        names = list(self._weights)
        later = names[names.index(name) :]
        return self.seconds * self._weights[name] / sum(self._weights[one] for one in later)


def _weight(model: ModelSection) -> float:
    return _LONG if model.is_loop_trained or model.traits.rounds else _SHORT
