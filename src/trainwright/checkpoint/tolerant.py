"""Going on when a checkpoint cannot be written."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import final

from trainwright.checkpoint.score import NOT_SCORED, NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import CheckpointStore, Kept, Loaded, Missed, NoCheckpoint
from trainwright.core.errors import StorageFailed
from trainwright.core.files import Json


@final
class TolerantCheckpoints:
    """A store whose saves may be missed: the next one is tried when it is due."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store

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
        """Write a checkpoint, or say why it is missed."""
        try:
            return self._store.save(step, parts, inventory, score)
        except StorageFailed as error:
            return Missed(step, error)

    def settled(self, *, wait: bool) -> tuple[Kept, ...]:
        """What the store says."""
        return self._store.settled(wait=wait)

    def newest_valid(self, up_to: int | None = None, further: int = 0) -> Loaded | NoCheckpoint:
        """What the store has; one that cannot be read is not tolerated."""
        return self._store.newest_valid(up_to, further)
