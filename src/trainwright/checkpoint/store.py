"""Checkpoint store: saves are atomic, and loads are verified."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, final

from trainwright.checkpoint.files.file_entry import name_of, step_of
from trainwright.checkpoint.files.manifest import LostBase, read_manifest, read_parts
from trainwright.checkpoint.files.shard_files import NO_SHARDS, WrittenShards
from trainwright.checkpoint.frozen_weights import FrozenBase
from trainwright.checkpoint.keeping.kept_by_rule import KeptByRule
from trainwright.checkpoint.keeping.retention import (
    NOT_SCORED,
    Entry,
    NotScored,
    Retention,
    at_any_step,
    best_first,
    kept_names,
)
from trainwright.checkpoint.snapshot_buffers import ReusedMemory
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.storages.catalog import Candidate, Catalog, entry_of
from trainwright.checkpoint.storages.checkpoint_files import (
    BaseFiles,
    CheckpointFiles,
    base_reader,
    copy_bases,
    files_of,
    frozen_of,
    stored_files,
)
from trainwright.checkpoint.storages.ledger import LedgerLine
from trainwright.checkpoint.storages.local_storage import LocalStorage
from trainwright.checkpoint.storages.storage import CheckpointStorage, FileSet
from trainwright.checkpoint.store_protocol import (
    Begun,
    CheckpointStore,
    Kept,
    Loaded,
    Missed,
    NoCheckpoint,
    SaveOutcome,
)
from trainwright.checkpoint.strict_json import Damaged
from trainwright.contract.sections.metric import Direction
from trainwright.core.errors import NoValidCheckpoint, StorageFailed
from trainwright.core.faultpoints import reached
from trainwright.core.files import Json
from trainwright.tracking.identity import Identity, NoIdentity

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
    "SaveOutcome",
]


@final
class Checkpoints:
    """Checkpoints in one storage, which one process owns (see `RunFolder.lock`).

    Args:
        where: a folder, created if missing, or any `CheckpointStorage`.
        keep_top_k: number of best checkpoints to keep; `direction` says which scores are better.
        keep_last: number of newest checkpoints to keep; at least two.
        keep_every_n_steps: keep the first planned checkpoint at or after each multiple.
        planned: whether the run saves at a step on schedule; see `Retention`.
        rollback_steps: largest number of steps that a rollback undoes.
    """

    def __init__(
        self,
        where: str | Path | CheckpointStorage,
        keep_top_k: int,
        direction: Direction = "min",
        keep_last: int = 2,
        keep_every_n_steps: int | Literal["off"] = "off",
        planned: Callable[[int], bool] = at_any_step,
        rollback_steps: int = 0,
    ) -> None:
        self._storage: CheckpointStorage = (
            LocalStorage(Path(where)) if isinstance(where, str | Path) else where
        )
        self._retention = Retention(
            keep_top_k, keep_last, keep_every_n_steps, direction, planned, rollback_steps
        )
        self._by_rule = KeptByRule(self._retention)
        self._pinned: set[str] = set()
        self._held: set[str] = set()
        self._memory = ReusedMemory()
        self._bases = BaseFiles(self._storage)
        self._frozen = FrozenBase()
        self._opened: list[Catalog] = []
        self._identity: Identity = NoIdentity()
        self._expected = ""

    def bind(self, identity: Identity, begun: str = "") -> None:
        """Accept checkpoints of this run only. `begun` is the evidence that there have been some;
        if not empty, their absence is an error.

        Raises:
            NoValidCheckpoint: they were opened before, and belong to another run.
        """
        self._identity, self._expected = identity, begun
        for catalog in self._opened:
            self._check_bound(catalog)

    def save(
        self,
        step: int,
        parts: Mapping[str, Snapshot],
        inventory: Json,
        score: float | NotScored = NOT_SCORED,
        shards: WrittenShards = NO_SHARDS,
    ) -> SaveOutcome:
        """Write a checkpoint, then move the pointers and apply retention.

        One of the same step is replaced. A non-finite score is stored and never the best. `shards`
        are those of the other writers, see `sharded_save`.

        Raises:
            StorageFailed: nothing has changed, and the next save can succeed.
        """
        began = time.monotonic()
        catalog = self._catalog()
        frozen = frozen_of(parts, self._bases.store(self._frozen))
        draft = CheckpointFiles(
            lineage=catalog.lineage,
            sequence=catalog.sequence + 1,
            step=step,
            parent=catalog.newest,
            score=score,
            parts=parts,
            inventory=inventory,
            bases=self._bases.used_by(frozen),
            frozen=frozen,
            shards=shards,
        )
        return self._commit(files_of(draft, catalog.left_by(step, draft.sequence)), catalog, began)

    def copy_from(self, storage: CheckpointStorage, name: str) -> SaveOutcome:
        """Import a checkpoint from another storage, byte for byte, verified on the way.

        Raises:
            Damaged: it does not verify, or is of another run. StorageFailed: not readable, or not
                writable here. Nothing has changed.
        """
        began = time.monotonic()
        catalog = self._catalog()
        files = stored_files(storage, name)
        if not catalog.candidates and not self._identity.lineage:
            catalog.lineage = files.lineage
        if files.lineage != catalog.lineage:
            raise Damaged(f"{name}: it belongs to another run")
        copy_bases(files.bases, storage, self._storage)
        left = catalog.left_by(step_of(name), files.sequence)
        return self._commit(replace(files, beside=left), catalog, began)

    @property
    def storage(self) -> CheckpointStorage:
        """The storage."""
        return self._storage

    def elsewhere(self, where: CheckpointStorage) -> Checkpoints:
        """Checkpoints in another storage, kept by the same rules."""
        kept_by = self._retention
        there = Checkpoints(
            where,
            kept_by.best,
            kept_by.direction,
            kept_by.newest,
            kept_by.every_n_steps,
            kept_by.planned,
            kept_by.rollback_steps,
        )
        there.bind(self._identity)
        return there

    def names(self) -> list[str]:
        """Names of the stored checkpoints, in the order in which they are tried."""
        return [candidate.name for candidate in self._catalog().candidates]

    def pin(self, names: Collection[str]) -> None:
        """Pin these as long as this object saves."""
        self._pinned |= set(names)

    def hold(self, name: str) -> None:
        """Keep this one until it is released."""
        self._held.add(name)

    def release(self, name: str) -> None:
        """Release a checkpoint held by `hold`."""
        self._held.discard(name)

    @contextlib.contextmanager
    def taking(self) -> Iterator[None]:
        """Inside the block snapshots are made in memory that is reused for each save: allocating it
        anew takes longer than the copy."""
        self._memory.take_back()
        is_first = self._bases.can_keep and not self._catalog().has_history
        with self._frozen.used(is_first=is_first), self._memory.used():
            yield

    def settled(self, *, wait: bool) -> tuple[Kept, ...]:  # noqa: ARG002
        """Nothing: a save has succeeded or failed when it returns."""
        return ()

    def newest_valid(self, up_to: int | None = None, further: int = 0) -> Loaded | NoCheckpoint:
        """Newest checkpoint that verifies. Newer ones that do not are set aside, never deleted.

        With `up_to`, for a rollback, only those of that step or before, preferably at least
        `further` steps older: none if all that are left are later. Checkpoints not kept by the rule
        alone count only where no other is old enough, so that the choice depends neither on
        interruptions nor on pins. What is loaded is kept as long as this object saves.

        Raises:
            NoValidCheckpoint: there were some and none verifies. StorageFailed: not readable.
        """
        catalog = self._catalog()
        rejected = list(catalog.damaged)
        for candidate in self._to_try(catalog, up_to, further):
            try:
                loaded = self._load(candidate, catalog.lineage)
            except Damaged as error:
                rejected.append(self._set_aside(candidate, str(error), catalog))
                continue
            self._pinned.add(loaded.name)
            catalog.newest = loaded.name
            with contextlib.suppress(StorageFailed):
                for _ in self._storage.retain(self._pointers(catalog), lambda _: ()):
                    pass
            return replace(loaded, rejected=tuple(rejected))
        if up_to is not None and catalog.candidates:
            return NoCheckpoint()
        if catalog.has_history:
            tried = "".join(f"\n    {text}" for text in rejected) or "\n    it is empty"
            raise NoValidCheckpoint(
                f"no checkpoint in {self._storage} can be used, and the run does not start "
                f"over silently. Tried:{tried}"
            )
        if self._expected and up_to is None:
            raise NoValidCheckpoint(
                f"the checkpoints of this run are missing: {self._storage} is empty, but "
                f"{self._expected}. Put the folder back, or start over as a new run"
            )
        return NoCheckpoint()

    def best_valid(self) -> Loaded | NoCheckpoint:
        """Checkpoint with the best score that verifies; none if nothing has a score.

        Only those kept by the rule alone are compared, and the newest, which may be the final one:
        what is pinned or was resumed from may not exist in an uninterrupted run.

        Raises:
            NoValidCheckpoint: some have a score and none of them verifies. StorageFailed: not
                readable.
        """
        catalog = self._catalog()
        rejected: list[str] = []
        by_name = {candidate.name: candidate for candidate in catalog.candidates}
        for name in self._ranked(catalog):
            candidate = by_name[name]
            try:
                return replace(self._load(candidate, catalog.lineage), rejected=tuple(rejected))
            except Damaged as error:
                rejected.append(self._set_aside(candidate, str(error), catalog))
        if rejected:
            raise NoValidCheckpoint(
                "no checkpoint with a score can be used. Tried:\n    " + "\n    ".join(rejected)
            )
        return NoCheckpoint()

    def best_names(self) -> list[str]:
        """Scored checkpoints, best first: see `best_valid`."""
        return self._ranked(self._catalog())

    def scores(self) -> dict[str, float | NotScored]:
        """Scores by name, best first: see `best_valid`."""
        entries = self._catalog().entries
        return {name: entries[name].score for name in self.best_names()}

    def best_of(self, scores: Mapping[str, float | NotScored]) -> str:
        """Name with the best of these scores; empty without one."""
        entries = [Entry(step_of(name), name, score) for name, score in scores.items()]
        return (*(one.name for one in best_first(entries, self._retention.direction)), "")[0]

    def _catalog(self) -> Catalog:
        if not self._opened:
            catalog = self._storage.open()
            self._check_bound(catalog)
            for entry in catalog.commits:
                self._by_rule.take(entry)
            self._opened.append(catalog)
        return self._opened[0]

    def _check_bound(self, catalog: Catalog) -> None:
        """A single checkpoint of another run is refused when it is loaded; a ledger of another run
        is refused as a whole.

        Raises:
            NoValidCheckpoint: they belong to another run; nothing was changed.
        """
        wanted = self._identity.lineage
        lines = [one.line for one in catalog.candidates if isinstance(one.line, LedgerLine)]
        if wanted and any(line.lineage != wanted for line in lines):
            raise NoValidCheckpoint(
                f"the checkpoints in {self._storage} belong to another run (another run id, plan "
                "or data version): put back those of this run, or start a new one"
            )
        catalog.lineage = wanted or catalog.lineage

    def _to_try(self, catalog: Catalog, up_to: int | None, further: int) -> Sequence[Candidate]:
        if up_to is None:
            return tuple(catalog.candidates)

        def rank(name: str) -> int:
            if name not in self._by_rule.names:
                return 2
            return int(step_of(name) > up_to - further)

        there = [one for one in catalog.candidates if step_of(one.name) <= up_to]
        return sorted(there, key=lambda one: rank(one.name))

    def _commit(self, files: FileSet, catalog: Catalog, began: float) -> SaveOutcome:
        line = self._storage.commit(files)
        catalog.add(line, files.beside)
        self._by_rule.take(entry_of(line))
        removed, warnings = self._after_commit(catalog)
        seconds = time.monotonic() - began
        step = step_of(line.name)
        size = files.size_bytes + sum(file.size_bytes for file in files.shards.files)
        return SaveOutcome(line.name, seconds, size, step, line.score, removed, warnings)

    def _load(self, candidate: Candidate, lineage: str) -> Loaded:
        reached("ckpt.load")
        read = partial(self._storage.read, candidate.name)
        manifest, sha256 = read_manifest(read)
        if isinstance(candidate.line, LedgerLine) and candidate.line.manifest_sha256 != sha256:
            raise Damaged("its manifest is not the one in the ledger")
        if manifest.lineage != lineage:
            raise Damaged("it belongs to another run")
        if candidate.name != name_of(manifest.step):
            raise Damaged(f"its manifest is of step {manifest.step}")
        try:
            parts = read_parts(read, manifest, base_reader(self._storage), self._frozen.adopt)
        except LostBase as lost:
            raise lost.refusal(candidate.name, self._storage) from None
        self._bases.learn(manifest.bases)
        return Loaded(candidate.name, manifest.step, parts, manifest.inventory, manifest.score)

    def _set_aside(self, candidate: Candidate, why: str, catalog: Catalog) -> str:
        """Set a checkpoint aside; what was wrong with it and where it is now."""
        catalog.remove(candidate.name)
        self._by_rule.remove(candidate.name)
        where = self._storage.set_aside(candidate)
        return f"{candidate.name}: {why}" + (f" (kept as {where})" if where else "")

    def _after_commit(self, catalog: Catalog) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Pointers, then retention. The checkpoint is durable already: failures are only
        warnings."""
        removed: list[str] = []

        def leaving(pinned: Collection[str]) -> list[LedgerLine]:
            history = list(catalog.entries.values())
            stay = kept_names(history, self._retention, self._pinned | self._held | set(pinned))
            lines = (candidate.line for candidate in catalog.candidates)
            known = {line.name: line for line in lines if isinstance(line, LedgerLine)}
            stay |= self._by_rule.names
            return [known[entry.name] for entry in history if entry.name not in stay]

        try:
            reached("ckpt.ledger")
            for line in self._storage.retain(self._pointers(catalog), leaving):
                catalog.remove(line.name)
                removed.append(line.name)
        except (OSError, StorageFailed) as error:
            return tuple(removed), (f"the checkpoint is saved, but cleaning up failed: {error}",)
        return tuple(removed), ()

    def _ranked(self, catalog: Catalog) -> list[str]:
        names = {*self._by_rule.names, catalog.newest}
        entries = [entry for name, entry in catalog.entries.items() if name in names]
        return [one.name for one in best_first(entries, self._retention.direction)]

    def _pointers(self, catalog: Catalog) -> dict[str, str]:
        return {"newest": catalog.newest, "best": (*self._ranked(catalog), "")[0]}
