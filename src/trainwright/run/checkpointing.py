"""The wiring of a network's checkpoints: where they go, which stay, and when they are due. Needs
torch."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import final

from trainwright.checkpoint.background import BackgroundCheckpoints
from trainwright.checkpoint.score import NOT_SCORED, NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import (
    Checkpoints,
    CheckpointStore,
    Kept,
    Loaded,
    NoCheckpoint,
)
from trainwright.contract.checkpointing import Checkpointing
from trainwright.contract.metric import METRICS, Direction
from trainwright.contract.section import settled
from trainwright.contract.training import Training
from trainwright.core.files import Json
from trainwright.engine.job import At, Every
from trainwright.engine.stop import Reserve
from trainwright.planner.plan import Plan


def build_checkpoints(training: Training, folder: Path) -> Checkpoints:
    """The checkpoints of a run's folder, kept as the contract says."""
    section = training.checkpointing
    return Checkpoints(
        folder,
        section.keep_top_k,
        _direction(training),
        section.keep_last,
        section.keep_every_n_steps,
    )


def build_saving(
    section: Checkpointing, checkpoints: Checkpoints, reserve: Reserve
) -> CheckpointStore:
    """What a run saves into: its checkpoints, in the background if the contract says so."""
    timed = TimedCheckpoints(checkpoints, reserve)
    return BackgroundCheckpoints(timed) if section.asynchronous else timed


def build_checkpoint_every(plan: Plan, validate_every: At) -> Every | At:
    """As the contract says; if it leaves it open, at the feed's own validations."""
    path = "training.checkpointing.save_every_n_steps"
    if any(choice.path == path for choice in plan.choices):
        return validate_every
    return Every(settled(plan.contract.training.checkpointing.save_every_n_steps))


def _direction(training: Training) -> Direction:
    """In which the value that checkpoints are ranked by improves."""
    ranked_by, stopping = training.checkpointing.rank_by, training.early_stopping
    if stopping != "off" and ranked_by == stopping.metric:
        return settled(stopping.mode)
    fact = METRICS.get(ranked_by.removeprefix("val_"))
    return "min" if fact is None else fact.direction


@final
class TimedCheckpoints:
    """A store that says how long a save takes."""

    def __init__(self, store: CheckpointStore, reserve: Reserve) -> None:
        self._store = store
        self._reserve = reserve

    def taking(self) -> AbstractContextManager[None]:
        """As the store does it."""
        return self._store.taking()

    def save(
        self,
        step: int,
        parts: Mapping[str, Snapshot],
        inventory: Json,
        score: float | NotScored = NOT_SCORED,
    ) -> Kept:
        """Save, measured."""
        with self._reserve.measuring("save"):
            return self._store.save(step, parts, inventory, score)

    def settled(self, *, wait: bool) -> tuple[Kept, ...]:
        """What the store says."""
        return self._store.settled(wait=wait)

    def newest_valid(self, up_to: int | None = None) -> Loaded | NoCheckpoint:
        """What the store has."""
        return self._store.newest_valid(up_to)
