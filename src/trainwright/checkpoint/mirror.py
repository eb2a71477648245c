"""Copies of a run's checkpoints in another storage, made while the training goes on."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Self, final

from trainwright.checkpoint.file_names import step_of
from trainwright.checkpoint.run_copies import Moment, RunCopies
from trainwright.checkpoint.score import NOT_SCORED, NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.storage import CheckpointStorage
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
"""In the place of a checkpoint's name."""


@final
@dataclass(frozen=True, slots=True)
class Places:
    """The checkpoints of this machine and those elsewhere, each with the storage it is in. `pins`
    gives the names that a person pinned, `files` copies the run's own files."""

    local: Checkpoints
    here: CheckpointStorage
    remote: Checkpoints
    away: CheckpointStorage
    pins: Callable[[], Collection[str]]
    files: RunCopies


@final
class MirroredCheckpoints:
    """A store whose checkpoints are copied elsewhere, and come back from there if they are lost.

    A checkpoint counts when it is on this machine's disk. Its copy is made in a thread, one at a
    time, the newest first, but after one that waits and has a better score: to go on from the
    newest, the best is needed beside it. What has left this machine before its turn is not copied.
    Before each checkpoint the run's own files are copied, also once before the first, so that the
    files elsewhere are never of an earlier step than a checkpoint there. A copy that fails is told
    and ends nothing. As a context it ends when nothing waits to be copied.

    Args:
        store: what the run saves into, over the local checkpoints.
        places: between which is copied.
        say: told what could not be copied, by the thread that trains.
        goes_on: whether the run is one that goes on; a new one must find nothing elsewhere.
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
        """As the store does it."""
        return self._store.taking()

    def save(
        self,
        step: int,
        parts: Mapping[str, Snapshot],
        inventory: Json,
        score: float | NotScored = NOT_SCORED,
    ) -> Kept:
        """Save here, and begin to copy."""
        kept = self._store.save(step, parts, inventory, score)
        self._hear(kept)
        return kept

    def settled(self, *, wait: bool) -> tuple[Kept, ...]:
        """What the store says; copies are not waited for."""
        all_kept = self._store.settled(wait=wait)
        for kept in all_kept:
            self._hear(kept)
        return all_kept

    def newest_valid(self, up_to: int | None = None, further: int = 0) -> Loaded | NoCheckpoint:
        """The newest one that verifies here; if there is none, what is elsewhere is brought back.

        Raises:
            Mistake: a new run finds checkpoints elsewhere.
            NoValidCheckpoint: there were some, and none verifies here or elsewhere.
            StorageFailed: here or elsewhere cannot be read.
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
            # Bound to another run, of which a new run need not hear more than that.
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
        """What an earlier process would have copied next, had it not died."""
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
        """Tell what a finished copy says, and begin the next one."""
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
        """Told by the thread that trains, when it is next here."""
        what = name or "the run's folder"
        self._failures.append(f"{what} is not copied to {self._places.away}: {error}")

    def _bring_back(self, up_to: int | None) -> bool:
        """The newest that verifies, and the best beside it; whether there is one."""
        for thread in self._copying:
            thread.join()
        remote = self._places.remote
        there = [name for name in remote.names() if up_to is None or step_of(name) <= up_to]
        best = [name for name in remote.best_names() if name in there][:1]
        for newest in there:
            # In the order of their steps: the run would leave a later one behind by an earlier.
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
            fix=f"go on with that run: trainwright resume {shlex.quote(where)}; or name this one "
            "anew with --run NAME",
        )
    )
