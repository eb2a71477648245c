"""Checkpoint store protocol, between the training loop and the store; results of its calls."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from trainwright.checkpoint.keeping.retention import NOT_SCORED, NotScored
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


class CheckpointStore(Protocol):
    """Stores checkpoints atomically; one that does not verify is never returned.

    Called from one thread. A save still being written counts as begun: `newest_valid` waits for it,
    and its error is raised by the next call.
    """

    def taking(self) -> AbstractContextManager[None]:
        """Inside the block the snapshots of the next `save` are made. They may be incomplete until
        the next update is due: see `Fence`."""
        ...

    def save(
        self,
        step: int,
        parts: Mapping[str, Snapshot],
        inventory: Json,
        score: float | NotScored = NOT_SCORED,
    ) -> Kept:
        """Write a checkpoint, or start to; raises `StorageFailed` with the older ones intact."""
        ...

    def settled(self, *, wait: bool) -> tuple[Kept, ...]:
        """Outcomes of the saves that were begun, each reported once; `wait` for all of them.
        Nothing is copied afterwards: weights may be changed."""
        ...

    def newest_valid(self, up_to: int | None = None, further: int = 0) -> Loaded | NoCheckpoint:
        """Newest checkpoint that verifies, up to a given step, preferably `further` steps before
        it; lists newer ones that do not."""
        ...
