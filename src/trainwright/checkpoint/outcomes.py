"""Outcomes of a checkpoint store: a save that succeeded, was begun or missed; what it loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trainwright.checkpoint.score import NOT_SCORED, NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.core.errors import StorageFailed
from trainwright.core.files import Json


@dataclass(frozen=True, slots=True)
class SaveOutcome:
    """A checkpoint is on the disk. `warnings` says what did not succeed after that, `held_seconds`
    for how long the training had to wait for the copies after the save was begun."""

    name: str
    seconds: float
    size_bytes: int
    step: int = 0
    score: float | NotScored = NOT_SCORED
    removed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    held_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Begun:
    """A checkpoint is being written."""

    step: int


@dataclass(frozen=True, slots=True)
class Missed:
    """A checkpoint could not be written, and the run is to go on."""

    step: int
    error: StorageFailed


Kept = SaveOutcome | Begun | Missed
"""What can be said of a save when the training goes on."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checkpoint that verified. `rejected` says what was wrong with each newer one."""

    name: str
    step: int
    parts: Mapping[str, Snapshot]
    inventory: Json
    score: float | NotScored = NOT_SCORED
    rejected: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class NoCheckpoint:
    """There has never been one."""
