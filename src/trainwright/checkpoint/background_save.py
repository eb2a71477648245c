"""Asynchronous checkpointing."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import final

from trainwright.checkpoint.keeping.retention import NOT_SCORED, NotScored
from trainwright.checkpoint.snapshot_buffers import ReusedMemory
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.states.copy_fence import Fence
from trainwright.checkpoint.store import (
    Begun,
    CheckpointStore,
    Kept,
    Loaded,
    NoCheckpoint,
    SaveOutcome,
)
from trainwright.core.files import Json


@final
class BackgroundCheckpoints:
    """Writes each checkpoint in a background thread; at most one at a time.

    Training stalls only while its state is copied into reused memory. What only an update changes
    is copied by the thread during the forward and backward passes of the next step; whatever makes
    updates must first wait at the `fence`. All calls except `save` wait there too.

    A save that is due before the previous one is written waits for it. An error of the thread is
    raised by the next call, and so between two steps; `TornSnapshot` is one, and then nothing is
    written.
    """

    def __init__(self, store: CheckpointStore, fence: Fence) -> None:
        self._store = store
        self._fence = fence
        self._memory = ReusedMemory(fence.promise)
        self._writing: list[threading.Thread] = []
        self._kept: list[Kept] = []
        self._errors: list[BaseException] = []

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Inside the block snapshots are made in memory that is reused for each save."""
        self._wait()
        self._fence.forget()
        with self._store.taking(), self._memory.used():
            yield
        self._fence.begin()

    def save(
        self,
        step: int,
        parts: Mapping[str, Snapshot],
        inventory: Json,
        score: float | NotScored = NOT_SCORED,
    ) -> Begun:
        """Start to write a checkpoint, which holds its snapshots until it is written."""
        self._wait()
        thread = threading.Thread(
            target=self._write, args=(step, parts, inventory, score), name="save", daemon=True
        )
        self._writing.append(thread)
        thread.start()
        return Begun(step)

    def settled(self, *, wait: bool) -> tuple[Kept, ...]:
        """Checkpoints written since the last call.

        Raises:
            StorageFailed: a write failed. TornSnapshot: the copies are inconsistent.
        """
        self._fence.wait()
        if wait or self._fence.torn or not any(thread.is_alive() for thread in self._writing):
            self._wait()
        kept = tuple(self._kept)
        self._kept.clear()
        return kept

    def newest_valid(self, up_to: int | None = None, further: int = 0) -> Loaded | NoCheckpoint:
        """Newest checkpoint that verifies, once no write is pending."""
        self._wait()
        return self._store.newest_valid(up_to, further)

    def _wait(self) -> None:
        """Wait for the pending write; its error is raised here, once."""
        if self._writing:
            self._fence.wait()
        for thread in self._writing:
            thread.join()
            self._memory.take_back()
        self._writing.clear()
        if self._errors:
            raise self._errors.pop()

    def _write(
        self, step: int, parts: Mapping[str, Snapshot], inventory: Json, score: float | NotScored
    ) -> None:
        try:
            self._fence.whole()
            kept = self._store.save(step, parts, inventory, score)
            if isinstance(kept, SaveOutcome):
                kept = replace(kept, held_seconds=self._fence.waited_seconds)
            self._kept.append(kept)
        except BaseException as error:  # re-raised in the training thread
            self._errors.append(error)
