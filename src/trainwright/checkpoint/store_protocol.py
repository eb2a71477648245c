"""Checkpoint store protocol, between the training loop and a storage."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from trainwright.checkpoint.keeping.score import NOT_SCORED, NotScored
from trainwright.checkpoint.outcomes import Kept, Loaded, NoCheckpoint
from trainwright.checkpoint.state import Snapshot
from trainwright.core.files import Json


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
