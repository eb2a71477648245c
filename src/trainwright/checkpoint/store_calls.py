"""A checkpoint store as its four calls, so that a wrapper overrides only some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, final

from trainwright.checkpoint.keeping.score import NOT_SCORED, NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import CheckpointStore, Kept, Loaded, NoCheckpoint
from trainwright.core.files import Json


class Save(Protocol):
    """`CheckpointStore.save`."""

    def __call__(
        self,
        step: int,
        parts: Mapping[str, Snapshot],
        inventory: Json,
        score: float | NotScored = NOT_SCORED,
    ) -> Kept:
        """Write a checkpoint, or start to."""
        ...


class Settled(Protocol):
    """`CheckpointStore.settled`."""

    def __call__(self, *, wait: bool) -> tuple[Kept, ...]:
        """Outcomes of the saves that were begun."""
        ...


class NewestValid(Protocol):
    """`CheckpointStore.newest_valid`."""

    def __call__(self, up_to: int | None = None, further: int = 0) -> Loaded | NoCheckpoint:
        """Newest checkpoint that verifies."""
        ...


@final
@dataclass(frozen=True, slots=True)
class StoreCalls:
    """A `CheckpointStore`; `dataclasses.replace` overrides single calls."""

    taking: Callable[[], AbstractContextManager[None]]
    save: Save
    settled: Settled
    newest_valid: NewestValid


def calls_of(store: CheckpointStore) -> StoreCalls:
    """Calls of a store."""
    return StoreCalls(store.taking, store.save, store.settled, store.newest_valid)
