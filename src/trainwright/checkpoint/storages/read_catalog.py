"""Checkpoints of a folder, reconciled from its ledger and the disk."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from trainwright.checkpoint.files.file_entry import (
    POINTERS,
    QUARANTINE,
    is_checkpoint,
    read_file,
    step_of,
)
from trainwright.checkpoint.files.manifest import Manifest, read_manifest
from trainwright.checkpoint.keeping.retention import Entry, with_abandoned
from trainwright.checkpoint.storages.catalog import (
    Candidate,
    Catalog,
    NotInLedger,
    entry_of,
    in_order,
    new_lineage,
)
from trainwright.checkpoint.storages.folder_reuse import discard
from trainwright.checkpoint.storages.ledger import Ledger, LedgerContent, LedgerLine
from trainwright.checkpoint.strict_json import Damaged
from trainwright.core.files import sync_folder

_Manifests = Mapping[str, tuple[Manifest, str] | Damaged]


def read_catalog(folder: Path, ledger: Ledger) -> Catalog:
    """Reconcile ledger and disk; a ledger with corrupt lines is rewritten without them.

    A complete checkpoint missing from the ledger is a candidate too: the process died before the
    line was written, or the ledger was lost.

    Raises:
        OSError, StorageFailed: the folder cannot be read or changed.
    """
    has_history = any(_is_history(path.name, ledger) for path in folder.iterdir())
    content = ledger.read()
    if content.damaged or content.torn:
        _mend(folder, ledger, content)
    lines = {line.name: line for line in content.lines}
    manifests = {
        path.name: _manifest_of(path) for path in folder.iterdir() if is_checkpoint(path.name)
    }
    lineage = _lineage(content, manifests)
    candidates = _candidates(lines, manifests)
    for candidate in candidates:
        if _is_removed(candidate):
            discard(folder, candidate.name)
    live = [candidate for candidate in candidates if not _is_gone(candidate)]
    live = list(_adopted(live, manifests, lineage, ledger))
    entries = with_abandoned(
        [entry_of(one.line) for one in live if isinstance(one.line, LedgerLine)]
    )
    left = {name for name, entry in entries.items() if entry.abandoned}
    if unsaid := left & _committed(lines):
        # The process died before it had written the lines.
        ledger.append([lines[name].now("abandoned") for name in sorted(unsaid)])
    return Catalog(
        lineage=lineage,
        entries=entries,
        candidates=in_order(live, left),
        sequence=_last_sequence(content, manifests),
        newest=max(live, key=lambda c: (c.name not in left, c.sequence)).name if live else "",
        damaged=content.damaged,
        has_history=has_history,
        commits=_commits(content, entries),
    )


def _candidates(lines: Mapping[str, LedgerLine], manifests: _Manifests) -> list[Candidate]:
    """Checkpoints on the disk, and those in the ledger that the disk has lost."""
    return [
        _from_disk(name, manifest, lines.get(name, NotInLedger()))
        for name, manifest in manifests.items()
    ] + [
        Candidate(line.sequence, name, line)
        for name, line in lines.items()
        if name not in manifests and line.is_kept
    ]


def _commits(content: LedgerContent, there: Mapping[str, Entry]) -> tuple[Entry, ...]:
    """Committed checkpoints, without those that failed verification; the line of one on the disk
    may have been lost."""
    damaged = {line.sequence for line in content.lines if line.kind == "quarantined"}
    commits = {entry.sequence: replace(entry, abandoned=False) for entry in there.values()}
    for line in content.lines:
        if line.kind == "committed" and line.sequence not in damaged:
            commits[line.sequence] = entry_of(line)
    return tuple(commits[sequence] for sequence in sorted(commits))


def _last_sequence(content: LedgerContent, manifests: _Manifests) -> int:
    known = [line.sequence for line in content.lines]
    found = [manifest.sequence for manifest in _readable(manifests)]
    return max(known + found, default=0)


def _mend(folder: Path, ledger: Ledger, content: LedgerContent) -> None:
    if content.damaged:
        kept = folder / f"{QUARANTINE}{uuid.uuid4().hex[:8]}-{ledger.path.name}"
        kept.write_bytes(ledger.path.read_bytes())
        sync_folder(folder)
    ledger.rewrite(content.lines)


def _manifest_of(path: Path) -> tuple[Manifest, str] | Damaged:
    try:
        return read_manifest(partial(read_file, path))
    except Damaged as error:
        return error


def _readable(manifests: _Manifests) -> list[Manifest]:
    return [found[0] for found in manifests.values() if not isinstance(found, Damaged)]


def _from_disk(
    name: str, found: tuple[Manifest, str] | Damaged, line: LedgerLine | NotInLedger
) -> Candidate:
    if isinstance(found, Damaged):
        return Candidate(-1 if isinstance(line, NotInLedger) else line.sequence, name, line)
    sequence = found[0].sequence
    if isinstance(line, NotInLedger) or sequence > line.sequence:
        return Candidate(sequence, name, NotInLedger())
    return Candidate(line.sequence, name, line)


def _is_history(name: str, ledger: Ledger) -> bool:
    return (
        name in (ledger.path.name, POINTERS) or is_checkpoint(name) or name.startswith(QUARANTINE)
    )


def _is_removed(candidate: Candidate) -> bool:
    """Was a removal interrupted after its line in the ledger?"""
    return isinstance(candidate.line, LedgerLine) and candidate.line.kind == "removed"


def _is_gone(candidate: Candidate) -> bool:
    return isinstance(candidate.line, LedgerLine) and not candidate.line.is_kept


def _committed(lines: Mapping[str, LedgerLine]) -> set[str]:
    return {name for name, line in lines.items() if line.kind == "committed"}


def _adopted(
    live: Sequence[Candidate], manifests: _Manifests, lineage: str, ledger: Ledger
) -> Iterator[Candidate]:
    """Adopt checkpoints without a line whose manifest matches their name and the run.

    Their files are verified when loaded, like all others. A checkpoint that matches nothing does
    not count for retention; it is examined when its turn to be loaded comes.
    """
    for candidate in live:
        name, manifest = candidate.name, manifests.get(candidate.name, Damaged())
        if not isinstance(candidate.line, NotInLedger) or isinstance(manifest, Damaged):
            yield candidate
            continue
        content, sha256 = manifest
        if (content.lineage, content.step) != (lineage, step_of(name)):
            yield candidate
            continue
        line = LedgerLine("committed", lineage, content.sequence, name, sha256, content.score)
        ledger.append([line])
        yield replace(candidate, line=line)


def _lineage(content: LedgerContent, manifests: _Manifests) -> str:
    """Lineage of the ledger; without one, that of the newest manifest; else a new one."""
    for line in content.lines:
        return line.lineage
    if known := _readable(manifests):
        return max(known, key=lambda manifest: manifest.sequence).lineage
    return new_lineage()
