"""Which checkpoints a folder holds, from its ledger and from the disk."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from trainwright.checkpoint.commit import discard
from trainwright.checkpoint.ledger import Ledger, LedgerContent, Line
from trainwright.checkpoint.manifest import Manifest, read_manifest
from trainwright.checkpoint.names import POINTERS, is_checkpoint, step_of
from trainwright.checkpoint.retention import Entry, abandoned
from trainwright.checkpoint.strict_json import Damaged
from trainwright.core.files import sync_folder

QUARANTINE = "quarantine-"


@dataclass(frozen=True, slots=True)
class NotInLedger:
    """No line of the ledger is about this checkpoint; its own manifest has to vouch for it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A checkpoint that may be whole. `sequence` orders them."""

    sequence: int
    name: str
    line: Line | NotInLedger


@final
@dataclass(slots=True)
class Catalog:
    """What is known of a folder of checkpoints while a process owns it."""

    lineage: str
    entries: dict[str, Entry]
    candidates: list[Candidate]
    sequence: int
    """The highest one in use."""
    newest: str
    """Name of the newest committed checkpoint; empty before the first."""
    damaged: tuple[str, ...]
    """Lines of the ledger that say nothing any more."""
    has_history: bool

    def left_by(self, step: int) -> tuple[Line, ...]:
        """What becomes true with a save of `step`: the run leaves the course of later ones."""
        later = {e.name for e in self.entries.values() if e.step > step and not e.abandoned}
        lines = [c.line for c in self.candidates if c.name in later]
        return tuple(line.now("abandoned") for line in lines if isinstance(line, Line))

    def add(self, line: Line, beside: Sequence[Line]) -> None:
        """Take in a checkpoint that was just committed, and the lines beside it."""
        self.sequence, self.newest, self.has_history = line.sequence, line.name, True
        entry = Entry(line.sequence, line.name, line.score, step_of(line.name))
        self.entries = _with_abandoned([*self.entries.values(), entry])
        others = [candidate for candidate in self.candidates if candidate.name != line.name]
        said = {line.name: line for line in beside}
        others = [replace(c, line=said.get(c.name, c.line)) for c in others]
        others.sort(key=lambda c: c.name in self.entries and self.entries[c.name].abandoned)
        self.candidates = [Candidate(line.sequence, line.name, line), *others]


def read_catalog(folder: Path, ledger: Ledger) -> Catalog:
    """Compare ledger and disk; a ledger with broken lines is replaced by its sound ones.

    A complete checkpoint that the ledger does not know is a candidate too: the process died before
    the line was written, or the ledger was lost.

    Raises:
        OSError, StorageFailed: the folder cannot be read or changed.
    """
    has_history = any(_is_history(path.name, ledger) for path in folder.iterdir())
    content = ledger.read()
    if content.damaged or content.torn:
        _mend(folder, ledger, content)
    lines = {line.name: line for line in content.lines}
    on_disk = {path.name: path for path in folder.iterdir() if is_checkpoint(path.name)}
    manifests = {name: _manifest_of(path) for name, path in on_disk.items()}
    lineage = _lineage(content, manifests)
    candidates = [
        _from_disk(name, manifest, lines.get(name, NotInLedger()))
        for name, manifest in manifests.items()
    ] + [
        Candidate(line.sequence, name, line)
        for name, line in lines.items()
        if name not in on_disk and line.is_kept
    ]
    for candidate in candidates:
        if _is_removed(candidate):
            discard(folder, candidate.name)
    live = [candidate for candidate in candidates if not _is_gone(candidate)]
    sequence = max(
        [line.sequence for line in content.lines]
        + [manifest.sequence for manifest in manifests.values() if isinstance(manifest, Manifest)],
        default=0,
    )
    entries = _with_abandoned(list(_entries(live, manifests, lineage)))
    left = {name for name, entry in entries.items() if entry.abandoned}
    if unsaid := left & _committed(lines):
        # The process died before it had written the lines.
        ledger.append([lines[name].now("abandoned") for name in sorted(unsaid)])
    return Catalog(
        lineage=lineage,
        entries=entries,
        candidates=_in_order(live, left),
        sequence=sequence,
        newest=max(live, key=lambda c: (c.name not in left, c.sequence)).name if live else "",
        damaged=content.damaged,
        has_history=has_history,
    )


def _mend(folder: Path, ledger: Ledger, content: LedgerContent) -> None:
    if content.damaged:
        kept = folder / f"{QUARANTINE}{uuid.uuid4().hex[:8]}-{ledger.path.name}"
        kept.write_bytes(ledger.path.read_bytes())
        kept.chmod(0o600)
        sync_folder(folder)
    ledger.rewrite(content.lines)


def _manifest_of(path: Path) -> Manifest | Damaged:
    try:
        return read_manifest(path)[0]
    except Damaged as error:
        return error


def _from_disk(name: str, manifest: Manifest | Damaged, line: Line | NotInLedger) -> Candidate:
    if isinstance(manifest, Damaged):
        return Candidate(-1 if isinstance(line, NotInLedger) else line.sequence, name, line)
    if isinstance(line, NotInLedger) or manifest.sequence > line.sequence:
        return Candidate(manifest.sequence, name, NotInLedger())
    return Candidate(line.sequence, name, line)


def _is_history(name: str, ledger: Ledger) -> bool:
    return (
        name in (ledger.path.name, POINTERS) or is_checkpoint(name) or name.startswith(QUARANTINE)
    )


def _is_removed(candidate: Candidate) -> bool:
    """Whether a removal was cut short after its line in the ledger."""
    return isinstance(candidate.line, Line) and candidate.line.kind == "removed"


def _is_gone(candidate: Candidate) -> bool:
    return isinstance(candidate.line, Line) and not candidate.line.is_kept


def _committed(lines: Mapping[str, Line]) -> set[str]:
    return {name for name, line in lines.items() if line.kind == "committed"}


def _in_order(live: Sequence[Candidate], left: Collection[str]) -> list[Candidate]:
    """Newest first, those that the run has left last. What has no readable manifest and no line is
    tried before all: it must not be passed over unseen."""

    def rank(candidate: Candidate) -> tuple[bool, bool, int, str]:
        sequence, name = candidate.sequence, candidate.name
        return (sequence < 0, name not in left, sequence, name)

    return sorted(live, key=rank, reverse=True)


def _entries(
    live: Sequence[Candidate], manifests: Mapping[str, Manifest | Damaged], lineage: str
) -> Iterator[Entry]:
    """What counts for retention: what has a line, or a manifest that fits its name and the run."""
    for candidate in live:
        line, name = candidate.line, candidate.name
        manifest = manifests.get(name, Damaged())
        if isinstance(line, Line):
            left = line.kind == "abandoned"
            yield Entry(candidate.sequence, name, line.score, step_of(name), left)
        elif isinstance(manifest, Manifest) and (manifest.lineage, manifest.step) == (
            lineage,
            step_of(name),
        ):
            yield Entry(candidate.sequence, name, manifest.score, manifest.step)


def _with_abandoned(entries: Sequence[Entry]) -> dict[str, Entry]:
    """By name; of two with the same name the later one."""
    by_name = {entry.name: entry for entry in entries}
    left = abandoned(by_name.values())
    return {name: replace(entry, abandoned=name in left) for name, entry in by_name.items()}


def _lineage(content: LedgerContent, manifests: Mapping[str, Manifest | Damaged]) -> str:
    """That of the ledger; without one, that of the newest manifest; else a new one."""
    for line in content.lines:
        return line.lineage
    known = [manifest for manifest in manifests.values() if isinstance(manifest, Manifest)]
    if known:
        return max(known, key=lambda manifest: manifest.sequence).lineage
    return uuid.uuid4().hex
