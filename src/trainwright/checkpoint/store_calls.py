"""Checkpoint stores around another one: its four calls, saves that may fail, loads that are
checked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, final

from trainwright.checkpoint.store import CheckpointStore, Kept, Loaded, Missed, NoCheckpoint
from trainwright.core.errors import StorageFailed


@final
@dataclass(frozen=True, slots=True)
class StoreCalls:
    """A `CheckpointStore`; `dataclasses.replace` overrides single calls."""

    taking: Callable[[], AbstractContextManager[None]]
    save: Callable[..., Kept]
    settled: Callable[..., tuple[Kept, ...]]
    newest_valid: Callable[..., Loaded | NoCheckpoint]


def calls_of(store: CheckpointStore) -> StoreCalls:
    """Calls of a store."""
    return StoreCalls(store.taking, store.save, store.settled, store.newest_valid)


def tolerate_failures(store: CheckpointStore) -> CheckpointStore:
    """Store whose saves may fail: the next one is tried when it is due. A checkpoint that cannot be
    read is still an error."""

    def save(step: int, *what: Any, **named: Any) -> Kept:
        try:
            return store.save(step, *what, **named)
        except StorageFailed as error:
            return Missed(step, error)

    return replace(calls_of(store), save=save)


def guard_loads(store: CheckpointStore, check: Callable[[Loaded], None]) -> CheckpointStore:
    """Store that rejects checkpoints for which `check` raises an error."""

    def newest_valid(up_to: int | None = None, further: int = 0) -> Loaded | NoCheckpoint:
        found = store.newest_valid(up_to, further)
        if isinstance(found, Loaded):
            check(found)
        return found

    return replace(calls_of(store), newest_valid=newest_valid)
