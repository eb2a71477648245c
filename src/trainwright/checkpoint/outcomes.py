"""Results of a checkpoint store: saves that succeeded, started or failed, and loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trainwright.checkpoint.keeping.score import NOT_SCORED, NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.core.errors import StorageFailed
from trainwright.core.files import Json


@dataclass(frozen=True, slots=True)
class SaveOutcome:
    """A durable checkpoint. `warnings` lists later failures, `held_seconds` is how long training
    waited for the copies after the save had started."""

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
    """A checkpoint could not be written, and the run continues."""

    step: int
    error: StorageFailed


Kept = SaveOutcome | Begun | Missed
"""Known outcome of a save when training continues."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Verified checkpoint. `rejected` says what was wrong with each newer one; `elsewhere`: it is
    of another run, at which this one begins."""

    name: str
    step: int
    parts: Mapping[str, Snapshot]
    inventory: Json
    score: float | NotScored = NOT_SCORED
    rejected: tuple[str, ...] = field(default=())
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class NoCheckpoint:
    """No checkpoint was ever written."""
