"""Health monitor: persistent training problems, reported once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

from trainwright.checkpoint.state import Snapshot
from trainwright.engine.health import health_rules
from trainwright.engine.health.health_rules import Sign
from trainwright.engine.health.loss_history import LossHistory
from trainwright.engine.signals.telemetry import Trouble, Window

_CONFIRMED_STEPS = 100
_CALM_STEPS = 500
_AT_ONCE = frozenset({"leap"})

OF_THE_LOSS: Mapping[str, Sign] = {
    "leap": health_rules.leap,
    "divergence": health_rules.divergence,
    "explosion": health_rules.explosion,
    "oscillation": health_rules.oscillation,
    "plateau": health_rules.plateau,
}
"""Rules evaluated at the end of each segment."""

OF_THE_LAYERS: Mapping[str, Sign] = {
    "vanishing": health_rules.vanishing,
    "dead_units": health_rules.dead_units,
    "learning_rate_low": health_rules.learning_rate_low,
    "learning_rate_high": health_rules.learning_rate_high,
    "lost_updates": health_rules.lost_updates,
}
"""Rules evaluated at the end of each window."""


@final
class HealthMonitor:
    """Watch that reports a health rule once it has fired at every evaluation for 100 steps; a loss
    jump in the first steps is reported at once.

    It is reported again only after it has been clear for 500 steps. The monitor never intervenes:
    that is up to the user, or to an observer.
    """

    name = "trouble"

    def __init__(self) -> None:
        self._history = LossHistory()
        self._latches = {
            kind: _Latch(0 if kind in _AT_ONCE else _CONFIRMED_STEPS)
            for kind in (*OF_THE_LOSS, *OF_THE_LAYERS)
        }

    def look(self, window: Window, numbers: Mapping[str, float]) -> Sequence[Trouble]:
        """Update the loss history step by step, then evaluate the rules."""
        told: list[Trouble] = []
        for step in window.steps:
            if self._history.take(step):
                told += self._judge(OF_THE_LOSS, numbers)
        if self._history.last:
            told += self._judge(OF_THE_LAYERS, numbers)
        return told

    def rearm(self) -> None:
        """Forget the newest segments; what was reported stays reported."""
        self._history.forget()

    def snapshot(self) -> Snapshot:
        """Loss history, and since when each rule has fired."""
        return Snapshot(
            values={
                "course": self._history.snapshot().values,
                "signs": {kind: latch.to_values() for kind, latch in self._latches.items()},
            }
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state."""
        values = snapshot.values
        self._history.restore(Snapshot(values=values["course"]))
        for kind, latch in self._latches.items():
            latch.from_values(values["signs"][kind])

    def _judge(self, judged: Mapping[str, Sign], numbers: Mapping[str, float]) -> list[Trouble]:
        told = []
        for kind, sign in judged.items():
            evidence = sign(self._history, numbers)
            if self._latches[kind].is_new(evidence is not None, self._history.steps):
                assert evidence is not None
                told.append(Trouble(kind, *evidence))
        return told


@final
class _Latch:
    """Whether to report a rule: once it has fired for a while, and not again until it clears."""

    def __init__(self, confirmed_steps: int) -> None:
        self._confirmed_steps = confirmed_steps
        self._since = -1
        self._told_at = -1

    def is_new(self, holds: bool, step: int) -> bool:
        if not holds:
            self._since = -1
            return False
        if self._since < 0:
            self._since = step
        if step - self._since < self._confirmed_steps:
            return False
        is_known = self._told_at >= 0 and step - self._told_at < _CALM_STEPS
        self._told_at = step
        return not is_known

    def to_values(self) -> list[int]:
        return [self._since, self._told_at]

    def from_values(self, values: Sequence[int]) -> None:
        self._since, self._told_at = map(int, values)
