"""A checkpoint store as its four calls, so that a wrapper overrides only some of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import final

from trainwright.checkpoint.store import CheckpointStore, Kept, Loaded, NoCheckpoint


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
