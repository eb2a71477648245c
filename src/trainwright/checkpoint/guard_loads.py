"""Checks of checkpoints before anything is restored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trainwright.checkpoint.store import CheckpointStore, Loaded, NoCheckpoint
from trainwright.checkpoint.store_calls import calls_of


def guard_loads(store: CheckpointStore, check: Callable[[Loaded], None]) -> CheckpointStore:
    """Store that rejects checkpoints for which `check` raises an error."""

    def newest_valid(up_to: int | None = None, further: int = 0) -> Loaded | NoCheckpoint:
        found = store.newest_valid(up_to, further)
        if isinstance(found, Loaded):
            check(found)
        return found

    return replace(calls_of(store), newest_valid=newest_valid)
