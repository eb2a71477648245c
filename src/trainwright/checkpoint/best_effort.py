"""Best-effort saving: training continues when a checkpoint cannot be written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trainwright.checkpoint.keeping.score import NOT_SCORED, NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import CheckpointStore, Kept, Missed
from trainwright.checkpoint.store_calls import calls_of
from trainwright.core.errors import StorageFailed
from trainwright.core.files import Json


def tolerate_failures(store: CheckpointStore) -> CheckpointStore:
    """Store whose saves may fail: the next one is tried when it is due. A checkpoint that cannot be
    read is still an error."""

    def save(
        step: int,
        parts: Mapping[str, Snapshot],
        inventory: Json,
        score: float | NotScored = NOT_SCORED,
    ) -> Kept:
        try:
            return store.save(step, parts, inventory, score)
        except StorageFailed as error:
            return Missed(step, error)

    return replace(calls_of(store), save=save)
