"""The wiring of what may end a network's run. Needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from trainwright.checkpoint.score import NOT_SCORED, NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import CheckpointStore, Loaded, NoCheckpoint, Saved
from trainwright.contract.stop import Stop
from trainwright.core.files import Json
from trainwright.engine.job import Validate
from trainwright.engine.stop import Patience, Reserve, StopRule, TargetReached
from trainwright.engine.watching import GradientNormBelow, LossPlateau, StepRule


def build_step_rules(section: Stop) -> tuple[StepRule, ...]:
    """The rules that follow the steps."""
    rules: list[StepRule] = []
    if section.gradient_norm_below != "off":
        rules.append(GradientNormBelow(section.gradient_norm_below))
    if section.loss_plateau != "off":
        rules.append(LossPlateau(section.loss_plateau.steps, section.loss_plateau.min_gain))
    return tuple(rules)


def build_target(section: Stop, patience: Patience) -> tuple[StopRule, ...]:
    """The value that ends the run before its length, if there is one."""
    if section.target_reached == "off":
        return ()
    return (TargetReached(patience, section.target_reached),)


@final
class TimedValidation:
    """A validation that says how long it takes."""

    def __init__(self, validate: Validate, reserve: Reserve) -> None:
        self._validate = validate
        self._reserve = reserve

    def __call__(self) -> Mapping[str, float]:
        """Its values."""
        with self._reserve.measuring("validation"):
            return self._validate()


@final
class TimedCheckpoints:
    """A store that says how long a save takes."""

    def __init__(self, store: CheckpointStore, reserve: Reserve) -> None:
        self._store = store
        self._reserve = reserve

    def save(
        self,
        step: int,
        parts: Mapping[str, Snapshot],
        inventory: Json,
        score: float | NotScored = NOT_SCORED,
    ) -> Saved:
        """Save, measured."""
        with self._reserve.measuring("save"):
            return self._store.save(step, parts, inventory, score)

    def newest_valid(self, up_to: int | None = None) -> Loaded | NoCheckpoint:
        """What the store has."""
        return self._store.newest_valid(up_to)
