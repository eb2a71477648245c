"""Checkpoints that are looked at before anything of them is restored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import final

from trainwright.checkpoint.score import NOT_SCORED, NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import CheckpointStore, Kept, Loaded, NoCheckpoint
from trainwright.core.files import Json


@final
class GuardedCheckpoints:
    """A store that gives no checkpoint which `check` refuses, by the error that it raises."""

    def __init__(self, store: CheckpointStore, check: Callable[[Loaded], None]) -> None:
        self._store = store
        self._check = check

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
        """As the store does it."""
        return self._store.save(step, parts, inventory, score)

    def settled(self, *, wait: bool) -> tuple[Kept, ...]:
        """What the store says."""
        return self._store.settled(wait=wait)

    def newest_valid(self, up_to: int | None = None, further: int = 0) -> Loaded | NoCheckpoint:
        """What the store has, once it is checked."""
        found = self._store.newest_valid(up_to, further)
        if isinstance(found, Loaded):
            self._check(found)
        return found
