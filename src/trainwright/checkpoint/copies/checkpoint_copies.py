"""Asynchronous copies of a run's checkpoints in another storage."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Self, final

from trainwright.checkpoint.copies.run_copies import Moment, RunCopies
from trainwright.checkpoint.files.file_entry import step_of
from trainwright.checkpoint.keeping.retention import NOT_SCORED, NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.storages.storage import CheckpointStorage
from trainwright.checkpoint.store import (
    Checkpoints,
    CheckpointStore,
    Kept,
    Loaded,
    NoCheckpoint,
    SaveOutcome,
)
from trainwright.checkpoint.strict_json import Damaged
from trainwright.core.errors import Mistake, NoValidCheckpoint, Problem, StorageFailed
from trainwright.core.faultpoints import reached
from trainwright.core.files import Json

_FILES_ALONE = ""
"""Used instead of a checkpoint's name."""


@final
@dataclass(frozen=True, slots=True)
class Places:
    """Local and remote checkpoints, each with its storage. `pins` returns the pinned names, `files`
    copies the run's own files."""

    local: Checkpoints
    here: CheckpointStorage
    remote: Checkpoints
    away: CheckpointStorage
    pins: Callable[[], Collection[str]]
    files: RunCopies


@final
class MirroredCheckpoints:
    """Store whose checkpoints are copied to a remote storage, and restored from there if lost.

    A checkpoint counts once it is on the local disk. It is copied by a thread, one at a time, the
    newest first, but after a waiting one with a better score: resuming from the newest needs the
    best as well. A checkpoint removed before its turn is not copied. The run's own files are copied
    before each checkpoint, and once before the first, so that the remote files are never older than
    a remote checkpoint. A failed copy is reported and ends nothing. As a context manager it exits
    once no copies are pending.

    Args:
        store: the local store that the run saves into.
        places: the two ends of the copying.
        say: receives what could not be copied, in the training thread.
        goes_on: whether the run is resumed; a new one must find no remote checkpoints.
    """

    def __init__(
        self, store: CheckpointStore, places: Places, say: Callable[[str], None], *, goes_on: bool
    ) -> None:
        self._store = store
        self._places = places
        self._say = say
        self._goes_on = goes_on
        self._asked = False
        self._copying: list[threading.Thread] = []
        self._under_way = ""
        self._waiting: list[str] = []
        self._scores: dict[str, float | NotScored] = {}
        self._failures: list[str] = []

    def taking(self) -> AbstractContextManager[None]:
        """As in the local store."""
        return self._store.taking()

    def save(
        self,
        step: int,
        parts: Mapping[str, Snapshot],
        inventory: Json,
        score: float | NotScored = NOT_SCORED,
    ) -> Kept:
        """Save locally, and start to copy."""
        kept = self._store.save(step, parts, inventory, score)
        self._hear(kept)
        return kept

    def settled(self, *, wait: bool) -> tuple[Kept, ...]:
        """Outcomes of the local store; copies are not waited for."""
        all_kept = self._store.settled(wait=wait)
        for kept in all_kept:
            self._hear(kept)
        return all_kept

    def newest_valid(self, up_to: int | None = None, further: int = 0) -> Loaded | NoCheckpoint:
        """Newest local checkpoint that verifies; if there is none, the remote ones are restored.

        Raises:
            Mistake: a new run finds remote checkpoints.
            NoValidCheckpoint: there were some, and none verifies, local or remote.
            StorageFailed: a storage cannot be read.
        """
        if self._asked:
            self._places.files.go_back()
            found = self._newest_valid(up_to, further)
            if isinstance(found, Loaded):
                known = self._scores.items()
                self._scores = {name: of for name, of in known if step_of(name) <= found.step}
            return found
        self._check_free()
        self._asked = True
        found = self._newest_valid(up_to, further)
        if isinstance(found, Loaded):
            self._take_up(found.name)
        self._begin(_FILES_ALONE)
        return found

    def _newest_valid(self, up_to: int | None, further: int) -> Loaded | NoCheckpoint:
        try:
            found = self._store.newest_valid(up_to, further)
        except NoValidCheckpoint:
            if not self._bring_back(up_to):
                raise
            return self._store.newest_valid(up_to, further)
        if isinstance(found, NoCheckpoint) and self._bring_back(up_to):
            return self._store.newest_valid(up_to, further)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._go_on()
        while self._copying or self._waiting:
            for thread in self._copying:
                thread.join()
            self._go_on()

    def _check_free(self) -> None:
        places = self._places
        try:
            is_taken = bool(places.remote.names())
        except NoValidCheckpoint:
            # They belong to another run, which is all that a new run needs to report.
            if self._goes_on:
                raise
            is_taken = True
        of_another = places.files.is_of_another()
        if self._goes_on and of_another:
            raise NoValidCheckpoint(
                f"the copies in {places.files} belong to another run: name another place as "
                "training.checkpointing.remote"
            )
        if not self._goes_on and (is_taken or of_another):
            raise _taken(str(places.files))

    def _take_up(self, newest: str) -> None:
        """Queue what an earlier process would have copied next, had it not died."""
        self._scores = self._places.local.scores()
        there = self._places.remote.names()
        wanted = dict.fromkeys([*[*self._scores][:1], newest])
        self._waiting = [name for name in wanted if name not in there]

    def _hear(self, kept: Kept) -> None:
        if isinstance(kept, SaveOutcome) and kept.name:
            others = [name for name in self._waiting if name not in (*kept.removed, kept.name)]
            self._waiting = [*others, kept.name]
            self._scores = {n: of for n, of in self._scores.items() if n not in kept.removed}
            self._scores[kept.name] = kept.score
        self._go_on()

    def _go_on(self) -> None:
        """Report a finished copy, and start the next one."""
        if self._copying and self._copying[0].is_alive():
            return
        self._copying.clear()
        self._tell()
        self._places.local.release(self._under_way)
        self._under_way = ""
        if self._waiting:
            best = self._places.local.best_of(self._scores)
            self._begin(best if best in self._waiting else self._waiting[-1])
            self._tell()

    def _tell(self) -> None:
        while self._failures:
            self._say(self._failures.pop(0))

    def _begin(self, name: str) -> None:
        """Copy the run's files, then a checkpoint."""
        places = self._places
        if name != _FILES_ALONE:
            self._waiting.remove(name)
            places.local.hold(name)
            places.remote.pin(places.pins())
        self._under_way = name
        try:
            moment = places.files.moment()
        except StorageFailed as error:
            self._fail(name, error)
            return
        thread = threading.Thread(target=self._copy, args=(name, moment), name="copy", daemon=True)
        self._copying.append(thread)
        thread.start()

    def _copy(self, name: str, moment: Moment) -> None:
        places = self._places
        try:
            if not places.files.copy(moment) or name == _FILES_ALONE:
                return
            reached("copy.checkpoint")
            places.remote.copy_from(places.here, name)
            places.files.take_checkpoint()
        except (StorageFailed, Damaged) as error:
            self._fail(name, error)

    def _fail(self, name: str, error: Exception) -> None:
        """Report a failure from the training thread, at its next call."""
        what = name or "the run's folder"
        self._failures.append(f"{what} is not copied to {self._places.away}: {error}")

    def _bring_back(self, up_to: int | None) -> bool:
        """Restore the newest that verifies, and the best; whether there is one."""
        for thread in self._copying:
            thread.join()
        remote = self._places.remote
        there = [name for name in remote.names() if up_to is None or step_of(name) <= up_to]
        best = [name for name in remote.best_names() if name in there][:1]
        for newest in there:
            # In order of their steps: an earlier step would abandon a later one.
            for name in sorted({newest, *best}, key=step_of):
                came = self._came(name)
                if name == newest and came:
                    return True
        return False

    def _came(self, name: str) -> bool:
        try:
            self._places.local.copy_from(self._places.away, name)
        except Damaged as error:
            self._say(f"{name} in {self._places.away} does not verify: {error}")
            return False
        return True


def _taken(where: str) -> Mistake:
    return Mistake(
        Problem(
            "there are checkpoints of another run at the place for copies",
            path="training.checkpointing.remote",
            found=where,
            expected="nothing, for a run that begins",
            fix=f"resume that run: trainwright resume {shlex.quote(where)}; or name this one "
            "differently with --run NAME",
        )
    )
