"""Best-effort saving: training continues when a checkpoint cannot be written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trainwright.checkpoint.store import CheckpointStore, Kept, Missed
from trainwright.checkpoint.store_calls import calls_of
from trainwright.core.errors import StorageFailed


def tolerate_failures(store: CheckpointStore) -> CheckpointStore:
    """Store whose saves may fail: the next one is tried when it is due. A checkpoint that cannot be
    read is still an error."""

    def save(step: int, *what: Any, **named: Any) -> Kept:
        try:
            return store.save(step, *what, **named)
        except StorageFailed as error:
            return Missed(step, error)

    return replace(calls_of(store), save=save)
