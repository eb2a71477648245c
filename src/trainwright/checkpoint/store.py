"""The checkpoints of a run: saved whole or not at all, and never loaded unless they verify."""

from __future__ import annotations

import contextlib
import errno
import os
import time
import uuid
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, final

from trainwright.checkpoint.catalog import (
    QUARANTINE,
    Candidate,
    Catalog,
    NotInLedger,
    read_catalog,
)
from trainwright.checkpoint.commit import Draft, commit, discard, tidy
from trainwright.checkpoint.ledger import Ledger, Line
from trainwright.checkpoint.manifest import read_manifest, read_parts
from trainwright.checkpoint.names import LEDGER, POINTERS, name_of, step_of
from trainwright.checkpoint.pins import nothing_is_removed, read_pins
from trainwright.checkpoint.retention import Entry, Retention, kept, ranked
from trainwright.checkpoint.score import NOT_SCORED, NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.strict_json import Damaged
from trainwright.contract.metric import Direction
from trainwright.core.errors import NoValidCheckpoint, StorageFailed
from trainwright.core.faultpoints import reached
from trainwright.core.files import Json, storage_errors, write_json

__all__ = [
    "NOT_SCORED",
    "Begun",
    "CheckpointStore",
    "Checkpoints",
    "Kept",
    "Loaded",
    "Missed",
    "NoCheckpoint",
    "NotScored",
    "Saved",
]

_RESERVE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint is on the disk. `warnings` says what did not succeed after that."""

    name: str
    seconds: float
    size_bytes: int
    step: int = 0
    score: float | NotScored = NOT_SCORED
    removed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Begun:
    """A checkpoint is being written."""

    step: int


@dataclass(frozen=True, slots=True)
class Missed:
    """A checkpoint could not be written, and the run is to go on."""

    step: int
    error: StorageFailed


Kept = Saved | Begun | Missed
"""What can be said of a save when the training goes on."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checkpoint that verified. `rejected` says what was wrong with each newer one."""

    name: str
    step: int
    parts: Mapping[str, Snapshot]
    inventory: Json
    score: float | NotScored = NOT_SCORED
    rejected: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class NoCheckpoint:
    """There has never been one."""


class CheckpointStore(Protocol):
    """Keeps checkpoints. Each is whole or absent; one that does not verify is never returned.

    One thread calls it. A save that is still being written counts as begun: `newest_valid` waits
    for it, and its error is raised by the next call, whichever that is.
    """

    def taking(self) -> AbstractContextManager[None]:
        """Inside the block the snapshots of the next `save` are made."""
        ...

    def save(
        self,
        step: int,
        parts: Mapping[str, Snapshot],
        inventory: Json,
        score: float | NotScored = NOT_SCORED,
    ) -> Kept:
        """Write a checkpoint, or begin to; raises `StorageFailed` with the older ones intact."""
        ...

    def settled(self, *, wait: bool) -> tuple[Kept, ...]:
        """What has become of the saves that were begun, each told once; `wait` for all of them."""
        ...

    def newest_valid(self, up_to: int | None = None) -> Loaded | NoCheckpoint:
        """The newest one that verifies, of those up to a step; names newer ones that do not."""
        ...


@final
class Checkpoints:
    """The checkpoints in one folder, which one process owns (see `RunFolder.lock`).

    Args:
        folder: made if it is missing.
        keep_top_k: how many of the best stay.
        direction: whether a lower or a higher score is better.
        keep_last: how many of the newest stay; two are always kept.
        keep_every_n_steps: the first checkpoint at or after each multiple of so many steps stays
            for ever.
        reserve_bytes: space of the disk that a save must leave free.
    """

    def __init__(
        self,
        folder: str | Path,
        keep_top_k: int,
        direction: Direction = "min",
        keep_last: int = 2,
        keep_every_n_steps: int | Literal["off"] = "off",
        reserve_bytes: int = _RESERVE_BYTES,
    ) -> None:
        self._folder = Path(folder)
        self._retention = Retention(keep_top_k, keep_last, keep_every_n_steps, direction)
        self._reserve_bytes = reserve_bytes
        self._ledger = Ledger(self._folder / LEDGER)
        self._pinned: set[str] = set()
        self._opened: list[Catalog] = []

    def save(
        self,
        step: int,
        parts: Mapping[str, Snapshot],
        inventory: Json,
        score: float | NotScored = NOT_SCORED,
    ) -> Saved:
        """Write a checkpoint, then move the pointers and remove those that need not stay.

        One that stands at the same step is replaced. A score that is not finite is kept and never
        the best.

        Raises:
            StorageFailed: nothing has changed, and the next save can succeed.
        """
        began = time.monotonic()
        catalog = self._catalog()
        name = name_of(step)
        draft = Draft(
            name=name,
            lineage=catalog.lineage,
            sequence=catalog.sequence + 1,
            step=step,
            parent=catalog.newest,
            score=score,
            parts=parts,
            inventory=inventory,
            beside=catalog.left_by(step),
        )
        line, size_bytes = commit(self._folder, self._ledger, draft, self._reserve_bytes)
        catalog.add(line, draft.beside)
        removed, warnings = self._after_commit(catalog)
        seconds = time.monotonic() - began
        return Saved(name, seconds, size_bytes, step, score, removed, warnings)

    def taking(self) -> AbstractContextManager[None]:
        """Nothing to prepare: snapshots are written before `save` returns."""
        return nullcontext()

    def settled(self, *, wait: bool) -> tuple[Kept, ...]:  # noqa: ARG002
        """Nothing: a save has succeeded or failed when it returns."""
        return ()

    def newest_valid(self, up_to: int | None = None) -> Loaded | NoCheckpoint:
        """The newest checkpoint that verifies. Newer ones that do not are set aside, never deleted.

        With `up_to` only those of that step or before: none if all that are left are later.
        What is loaded stays on the disk for as long as this object saves.

        Raises:
            NoValidCheckpoint: there were some and none verifies. StorageFailed: not readable.
        """
        catalog = self._catalog()
        rejected = list(catalog.damaged)
        for candidate in tuple(catalog.candidates):
            if up_to is not None and step_of(candidate.name) > up_to:
                continue
            try:
                loaded = self._load(candidate, catalog.lineage)
            except Damaged as error:
                rejected.append(self._set_aside(candidate, str(error), catalog))
                continue
            self._adopt(candidate, catalog)
            self._pinned.add(loaded.name)
            catalog.newest = loaded.name
            with contextlib.suppress(StorageFailed, OSError):
                self._write_pointers(catalog)
            return _with_rejected(loaded, rejected)
        if up_to is not None and catalog.candidates:
            return NoCheckpoint()
        if catalog.has_history:
            tried = "".join(f"\n    {text}" for text in rejected) or "\n    the folder is empty"
            raise NoValidCheckpoint(
                f"no checkpoint in {self._folder} can be used, and nothing is started from scratch "
                f"in its place. Tried:{tried}"
            )
        return NoCheckpoint()

    def best_valid(self) -> Loaded | NoCheckpoint:
        """The checkpoint with the best score that verifies; none if nothing has a score.

        Raises:
            NoValidCheckpoint: some have a score and none of them verifies. StorageFailed: not
                readable.
        """
        catalog = self._catalog()
        rejected: list[str] = []
        by_name = {candidate.name: candidate for candidate in catalog.candidates}
        for entry in ranked(list(catalog.entries.values()), self._retention.direction):
            candidate = by_name[entry.name]
            try:
                return _with_rejected(self._load(candidate, catalog.lineage), rejected)
            except Damaged as error:
                rejected.append(self._set_aside(candidate, str(error), catalog))
        if rejected:
            raise NoValidCheckpoint(
                "no checkpoint with a score can be used. Tried:\n    " + "\n    ".join(rejected)
            )
        return NoCheckpoint()

    def _catalog(self) -> Catalog:
        if not self._opened:
            with storage_errors(f"opening {self._folder}"):
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                _check_writable(self._folder)
                tidy(self._folder)
                self._opened.append(read_catalog(self._folder, self._ledger))
        return self._opened[0]

    def _load(self, candidate: Candidate, lineage: str) -> Loaded:
        reached("ckpt.load")
        folder = self._folder / candidate.name
        manifest, sha256 = read_manifest(folder)
        if isinstance(candidate.line, Line) and candidate.line.manifest_sha256 != sha256:
            raise Damaged("its manifest is not the one in the ledger")
        if manifest.lineage != lineage:
            raise Damaged("it belongs to another run")
        if candidate.name != name_of(manifest.step):
            raise Damaged(f"its manifest is of step {manifest.step}")
        parts = read_parts(folder, manifest)
        return Loaded(candidate.name, manifest.step, parts, manifest.inventory, manifest.score)

    def _adopt(self, candidate: Candidate, catalog: Catalog) -> None:
        """Give a checkpoint that verified by itself its line in the ledger."""
        if not isinstance(candidate.line, NotInLedger):
            return
        manifest, sha256 = read_manifest(self._folder / candidate.name)
        line = Line(
            "committed", catalog.lineage, manifest.sequence, candidate.name, sha256, manifest.score
        )
        # Without the line the manifest vouches for it again at the next start.
        with contextlib.suppress(OSError):
            self._ledger.append([line])

    def _set_aside(self, candidate: Candidate, why: str, catalog: Catalog) -> str:
        """Rename a checkpoint that does not verify; says what was wrong and where it is now."""
        catalog.candidates = [c for c in catalog.candidates if c.name != candidate.name]
        catalog.entries.pop(candidate.name, None)
        aside = f"{QUARANTINE}{uuid.uuid4().hex[:8]}-{candidate.name}"
        path = self._folder / candidate.name
        where = ""
        with contextlib.suppress(OSError):
            if path.exists() or path.is_symlink():
                path.rename(self._folder / aside)
                where = f" (kept as {aside})"
                reached("ckpt.aside")
            if isinstance(candidate.line, Line):
                self._ledger.append([candidate.line.now("quarantined")])
        return f"{candidate.name}: {why}{where}"

    def _after_commit(self, catalog: Catalog) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Pointers, then retention. The checkpoint is safe already: failures are only warnings."""
        removed: list[str] = []
        try:
            reached("ckpt.ledger")
            self._write_pointers(catalog)
            reached("ckpt.pointer")
            with nothing_is_removed(self._folder):
                history = list(catalog.entries.values())
                pinned = self._pinned | read_pins(self._folder)
                stay = kept(history, self._retention, pinned)
                for entry in history:
                    if entry.name not in stay:
                        self._remove(entry, catalog)
                        removed.append(entry.name)
            reached("ckpt.retain")
        except (OSError, StorageFailed) as error:
            return tuple(removed), (f"the checkpoint is safe, tidying up was not: {error}",)
        return tuple(removed), ()

    def _remove(self, entry: Entry, catalog: Catalog) -> None:
        """The ledger first: a removal that is cut short is no loss to be reported."""
        line = Line("removed", catalog.lineage, entry.sequence, entry.name, "", entry.score)
        self._ledger.append([line])
        del catalog.entries[entry.name]
        catalog.candidates = [c for c in catalog.candidates if c.name != entry.name]
        if (self._folder / entry.name).exists():
            discard(self._folder, entry.name)

    def _write_pointers(self, catalog: Catalog) -> None:
        best = ranked(list(catalog.entries.values()), self._retention.direction)
        pointers = {"newest": catalog.newest, "best": best[0].name if best else ""}
        write_json(self._folder / POINTERS, pointers)


def _check_writable(folder: Path) -> None:
    """Say before the first step what the first save would say after many."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "this folder cannot be written to")


def _with_rejected(loaded: Loaded, rejected: list[str]) -> Loaded:
    return Loaded(
        loaded.name,
        loaded.step,
        loaded.parts,
        loaded.inventory,
        loaded.score,
        tuple(rejected),
    )
