"""Recovery of a training's checkpoints from their copies, with their ledger."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from trainwright.checkpoint.files.file_entry import LEDGER, POINTERS, step_of
from trainwright.checkpoint.keeping.pins import read_pins, unpin
from trainwright.checkpoint.keeping.retention import best_first
from trainwright.checkpoint.storages.catalog import entry_of
from trainwright.checkpoint.storages.checkpoint_files import copy_bases, stored_files
from trainwright.checkpoint.storages.ledger import Ledger, LedgerLine
from trainwright.checkpoint.storages.local_storage import LocalStorage
from trainwright.checkpoint.storages.object_storage import ObjectStorage
from trainwright.checkpoint.strict_json import Damaged
from trainwright.contract.sections.metric import Direction
from trainwright.core.errors import NoValidCheckpoint
from trainwright.core.files import storage_errors, write_json


@final
@dataclass(frozen=True, slots=True)
class CopyRequirements:
    """Requirements on a copy to resume from.

    `lineage` is that of the training, empty if it has none. `last_step` is the last one in its
    copied signals: the copied files know nothing of later ones. With `keeps_best` the model has the
    weights of the best checkpoint, so that must exist too; `direction` says whether a lower or a
    higher score is better.
    """

    lineage: str
    last_step: int
    keeps_best: bool
    direction: Direction


@final
@dataclass(frozen=True, slots=True)
class Recovered:
    """Step to resume from, and what is wrong with newer copies."""

    step: int
    rejected: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class NothingCopied:
    """No checkpoint was ever copied."""


@dataclass
class _Copies:
    """Remote checkpoints, and those of them that do not verify."""

    lines: Mapping[int, LedgerLine]
    rejected: list[str] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    taken: set[int] = field(default_factory=set)

    def reject(self, line: LedgerLine, why: str) -> None:
        self.lost.add(line.sequence)
        self.rejected.append(f"{line.name}: {why}")


def recover_checkpoints(
    folder: Path, away: ObjectStorage, wanted: CopyRequirements
) -> Recovered | NothingCopied:
    """Fill a folder that contains the copied ledger, or nothing, with the copied checkpoints up to
    the newest one that verifies; the ledger is truncated there, as if later ones had never been
    made. The remote storage is not changed.

    Raises:
        NoValidCheckpoint: there are some, and none of them can be resumed from.
        StorageFailed: not readable, or not writable here.
    """
    catalog = away.look()
    known = {
        one.sequence: one.line for one in catalog.candidates if isinstance(one.line, LedgerLine)
    }
    copies = _Copies(known)
    for one in catalog.candidates:
        if one.sequence not in known:
            copies.lost.add(one.sequence)
            copies.rejected.append(f"{one.name}: its manifest does not verify")
    with storage_errors(f"reading {folder}"):
        written = Ledger(folder / LEDGER).read().lines
    if not catalog.candidates:
        return NothingCopied()
    left = {line.sequence for line in written or known.values() if line.kind == "abandoned"}
    newest_first = sorted(known, reverse=True)
    for sequence in newest_first:
        line = known[sequence]
        if sequence in left or not _is_usable(line, wanted, copies):
            continue
        lines = _ledger_at(sequence, written, known)
        if _take(folder, away, lines, sequence, copies, wanted):
            _settle(folder, lines, copies, newest_first[0], wanted.direction)
            return Recovered(step_of(line.name), tuple(copies.rejected))
    tried = (
        "".join(f"\n    {text}" for text in copies.rejected) or "\n    the run has left them all"
    )
    raise NoValidCheckpoint(f"no checkpoint in {away} can be resumed from. Tried:{tried}")


def _is_usable(line: LedgerLine, wanted: CopyRequirements, copies: _Copies) -> bool:
    if line.sequence in copies.lost:
        return False
    if wanted.lineage and line.lineage != wanted.lineage:
        copies.reject(line, "it belongs to another run")
        return False
    if step_of(line.name) > wanted.last_step:
        copies.reject(line, f"the copied signals end at step {wanted.last_step:,}")
        return False
    return True


def _ledger_at(
    sequence: int, written: Sequence[LedgerLine], known: Mapping[int, LedgerLine]
) -> list[LedgerLine]:
    """Ledger lines as of the time when the checkpoint of this sequence was the newest."""
    lines: list[LedgerLine] = []
    for line in written:
        if line.kind == "committed" and line.sequence > sequence:
            break
        if line.sequence <= sequence:
            lines.append(line)
    said = {line.sequence for line in lines}
    return lines + [known[one] for one in sorted(known) if one <= sequence and one not in said]


def _kept(lines: Sequence[LedgerLine]) -> dict[str, LedgerLine]:
    """Checkpoints that should exist according to these lines."""
    last = {line.name: line for line in lines}
    return {name: line for name, line in last.items() if line.is_kept}


def _take(
    folder: Path,
    away: ObjectStorage,
    lines: Sequence[LedgerLine],
    sequence: int,
    copies: _Copies,
    wanted: CopyRequirements,
) -> bool:
    """Restore the checkpoints of these lines, that of `sequence` first; whether it can be resumed
    from."""
    kept = {line.sequence: line for line in _kept(lines).values() if line.sequence in copies.lines}
    if sequence not in kept:
        copies.reject(copies.lines[sequence], "the run had set it aside or removed it")
        return False
    here = LocalStorage(folder)
    for one in sorted(kept, key=lambda number: (number != sequence, number)):
        line = kept[one]
        if one in copies.lost or one in copies.taken:
            continue
        try:
            if copies.lines[one].manifest_sha256 != line.manifest_sha256:
                raise Damaged("its manifest is not the one in the ledger")
            files = stored_files(away, line.name)
            copy_bases(files.bases, away, here)
            here.commit(files)
            copies.taken.add(one)
        except Damaged as error:
            copies.reject(line, str(error))
            if one == sequence:
                return False
    return _has_best(lines, sequence, copies, wanted)


def _has_best(
    lines: Sequence[LedgerLine], sequence: int, copies: _Copies, wanted: CopyRequirements
) -> bool:
    """Is the best checkpoint among them, as in an uninterrupted run?"""
    if not wanted.keeps_best:
        return True
    entries = [entry_of(line) for line in _kept(lines).values()]
    best = next(iter(best_first(entries, wanted.direction)), None)
    if best is None or best.sequence in copies.taken:
        return True
    name = copies.lines[sequence].name
    copies.rejected.append(f"{name}: {best.name}, the best until then, is not there beside it")
    return False


def _settle(
    folder: Path,
    lines: Sequence[LedgerLine],
    copies: _Copies,
    newest: int,
    direction: Direction,
) -> None:
    """Write ledger and pointers, and remove what the ledger does not list. A sequence number used
    remotely is never reused."""
    there = {line.name: line for line in _kept(lines).values() if line.sequence in copies.taken}
    absent = [line.now("removed") for name, line in _kept(lines).items() if name not in there]
    last = copies.lines[newest]
    is_later = newest > max(line.sequence for line in lines) and last.lineage == lines[0].lineage
    before = [last.now("quarantined")] if is_later else []
    with storage_errors(f"writing {folder}"):
        for path in folder.glob("step-*"):
            if path.name not in there:
                shutil.rmtree(path)
        for name in read_pins(folder) - there.keys():
            unpin(folder, name)
        Ledger(folder / LEDGER).rewrite([*before, *lines, *absent])
        write_json(folder / POINTERS, _pointers(list(there.values()), direction))


def _pointers(there: Sequence[LedgerLine], direction: Direction) -> dict[str, str]:
    """Newest and best. A run that is finished writes them no more, one that goes on does."""
    best = [entry.name for entry in best_first([entry_of(line) for line in there], direction)]
    newest = max(there, key=lambda line: line.sequence).name
    return {"newest": newest, "best": (*best, "")[0]}
