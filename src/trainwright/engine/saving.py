"""Saves: started between two steps, announced, on request or at an interval."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Literal, Self, assert_never, final

from trainwright.checkpoint.keeping.retention import NOT_SCORED, NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import Begun, Kept, Missed
from trainwright.checkpoint.store import SaveOutcome as OnDisk
from trainwright.core.errors import StorageFailed
from trainwright.core.faultpoints import reached
from trainwright.core.progress import Progress, StopFlag
from trainwright.engine.job import Job
from trainwright.tracking.events import Event, Noted, SaveBegun, Saved, SaveMissed, Saving


@final
class SaveRequested:
    """Due after a step during which a save was requested."""

    def __init__(self, flag: StopFlag) -> None:
        self._flag = flag

    def due(self, progress: Progress) -> bool:  # noqa: ARG002
        """Is a save due at this step?"""
        return self._flag.take_save()


@final
class Saves:
    """Saves of a job and their outcome.

    `step` is that of the newest save; `none` before the first, and where that one was lost. As a
    context manager it exits only when no write is pending, however the block ends.
    """

    def __init__(self, job: Job, tell: Callable[[Event], None]) -> None:
        self._job = job
        self._tell = tell
        self._open: deque[tuple[Progress, float]] = deque()
        self._missed: list[StorageFailed] = []
        self.step: int | Literal["none"] = "none"

    def begin(self, progress: Progress, score: float | NotScored = NOT_SCORED) -> None:
        """Write a checkpoint, or start to, depending on the store.

        The signals of its steps are flushed first: those steps are never repeated.
        """
        started = time.perf_counter()
        self._tell(Saving(progress))
        job = self._job
        with job.checkpoints.taking():
            parts = {name: stateful.snapshot() for name, stateful in job.state.items()}
            parts["progress"] = Snapshot(values=progress._asdict())
        reached("ckpt.snapshot")
        self.step = progress.step
        kept = job.checkpoints.save(progress.step, parts, job.inventory, score)
        self._open.append((progress, time.perf_counter() - started))
        self._take(kept)

    def settle(self) -> None:
        """Announce the saves that have finished.

        Raises:
            StorageFailed: one of them failed.
        """
        if self._open:
            for kept in self._job.checkpoints.settled(wait=False):
                self._take(kept)

    def wait(self) -> None:
        """Wait for all saves and announce them.

        Raises:
            StorageFailed: one of them failed.
        """
        for kept in self._job.checkpoints.settled(wait=True):
            self._take(kept)

    def save(
        self, progress: Progress, score: float | NotScored = NOT_SCORED, *, must: bool = False
    ) -> None:
        """Write a checkpoint and wait for it.

        Raises:
            StorageFailed: it failed, and either failures end the run or this save is required
                (`must`).
        """
        self.begin(progress, score)
        self.wait()
        if must and self.step != progress.step:
            raise self._missed[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            self.wait()
        except StorageFailed as failed:
            if error is None:
                raise
            error.add_note(f"The pending checkpoint is lost too: {failed}")

    def _take(self, kept: Kept) -> None:
        match kept:
            case Begun():
                self._tell(SaveBegun(self._open[-1][0]))
            case OnDisk():
                progress, stall = self._open.popleft()
                stall += kept.held_seconds
                score = math.nan if isinstance(kept.score, NotScored) else kept.score
                if kept.name:
                    size, held = kept.size_bytes, kept.held_seconds
                    name, seconds = kept.name, kept.seconds
                    self._tell(Saved(progress, name, seconds, size, score, stall, held))
                for warning in kept.warnings:
                    self._tell(Noted("checkpoint", warning))
            case Missed(error=error):
                progress, _ = self._open.popleft()
                self._missed.append(error)
                if self.step == progress.step:
                    self.step = "none"
                self._tell(SaveMissed(progress, str(error), len(self._missed)))
            case _:
                assert_never(kept)
