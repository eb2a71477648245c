"""Catalog of the checkpoints in a storage, kept while a run saves, and read-only listing of a
folder."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import final

from trainwright.checkpoint.files.file_entry import LEDGER, POINTERS, TREES, step_of
from trainwright.checkpoint.keeping.pins import read_pins
from trainwright.checkpoint.keeping.retention import (
    NOT_SCORED,
    Entry,
    NotScored,
    score_to_json,
    with_abandoned,
)
from trainwright.checkpoint.storages.ledger import Ledger, LedgerLine
from trainwright.core.files import Json, read_json, storage_errors


@dataclass(frozen=True, slots=True)
class NotInLedger:
    """The ledger has no line for this checkpoint; its own manifest has to vouch for it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Checkpoint that may be complete. `sequence` orders them."""

    sequence: int
    name: str
    line: LedgerLine | NotInLedger


@final
@dataclass(slots=True)
class Catalog:
    """Contents of a storage while a process owns it."""

    lineage: str
    entries: dict[str, Entry]
    candidates: list[Candidate]
    sequence: int
    """Highest sequence number in use."""
    newest: str
    """Name of the newest committed checkpoint; empty before the first."""
    damaged: tuple[str, ...]
    """Damage found: parts of the storage that cannot be read."""
    has_history: bool
    commits: tuple[Entry, ...]
    """All checkpoints known when the storage was opened, in order, including removed ones."""

    def left_by(self, step: int, sequence: int) -> tuple[LedgerLine, ...]:
        """Ledger lines that become true with a save of `step`: the run abandons later steps saved
        before it. A copy may arrive after those of later saves, and abandons none."""
        later = {
            entry.name
            for entry in self.entries.values()
            if entry.step > step and entry.sequence < sequence and not entry.abandoned
        }
        lines = [c.line for c in self.candidates if c.name in later]
        return tuple(line.now("abandoned") for line in lines if isinstance(line, LedgerLine))

    def remove(self, name: str) -> None:
        """Record that a checkpoint was removed."""
        self.entries.pop(name, None)
        self.candidates = [one for one in self.candidates if one.name != name]

    def add(self, line: LedgerLine, beside: Sequence[LedgerLine]) -> None:
        """Add a checkpoint that was just committed, and the lines that go with it."""
        self.has_history = True
        if line.sequence >= self.sequence:
            self.sequence, self.newest = line.sequence, line.name
        entry = Entry(line.sequence, line.name, line.score, step_of(line.name))
        self.entries = with_abandoned([*self.entries.values(), entry])
        others = [candidate for candidate in self.candidates if candidate.name != line.name]
        said = {line.name: line for line in beside}
        others = [replace(c, line=said.get(c.name, c.line)) for c in others]
        others.sort(key=lambda c: c.name in self.entries and self.entries[c.name].abandoned)
        self.candidates = [Candidate(line.sequence, line.name, line), *others]


def entry_of(line: LedgerLine) -> Entry:
    """Retention entry of a ledger line."""
    left = line.kind == "abandoned"
    return Entry(line.sequence, line.name, line.score, step_of(line.name), left)


def new_lineage() -> str:
    """New identifier shared by the checkpoints of one run."""
    return uuid.uuid4().hex


def in_order(live: Sequence[Candidate], left: Collection[str]) -> list[Candidate]:
    """Newest first, abandoned ones last. Those without a readable manifest or a line come first:
    they must not be skipped silently."""

    def rank(candidate: Candidate) -> tuple[bool, bool, int, str]:
        sequence, name = candidate.sequence, candidate.name
        return (sequence < 0, name not in left, sequence, name)

    return sorted(live, key=rank, reverse=True)


@final
@dataclass(frozen=True, slots=True)
class Listed:
    """Checkpoint recorded by the ledger, or file of saved trees, whose step is their number.
    `abandoned`: the run went back past it."""

    name: str
    step: int
    score: float | NotScored
    size_bytes: int
    newest: bool
    best: bool
    pinned: bool
    abandoned: bool

    def to_json(self) -> Json:
        """Strict JSON."""
        return {**asdict(self), "score": score_to_json(self.score)}


def list_checkpoints(folder: Path) -> list[Listed]:
    """Checkpoints ordered by step; without a ledger the saved trees, if any.

    Raises:
        StorageFailed: not readable.
    """
    with storage_errors(f"reading {folder}"):
        lines = {line.name: line for line in Ledger(folder / LEDGER).read().lines}
        pins = read_pins(folder)
        pointers = _pointers(folder / POINTERS)
        listed = [
            Listed(
                name=name,
                step=step_of(name),
                score=line.score,
                size_bytes=sum(path.stat().st_size for path in (folder / name).iterdir()),
                newest=name == pointers.get("newest"),
                best=name == pointers.get("best"),
                pinned=name in pins,
                abandoned=line.kind == "abandoned",
            )
            for name, line in lines.items()
            if line.is_kept and (folder / name).is_dir()
        ]
        listed += _trees(folder)
    return sorted(listed, key=lambda one: one.step)


def _trees(folder: Path) -> list[Listed]:
    paths = sorted(folder.glob("trees-*"))
    return [
        Listed(
            name=path.name,
            step=int(match[1]),
            score=NOT_SCORED,
            size_bytes=path.stat().st_size,
            newest=path == paths[-1],
            best=False,
            pinned=False,
            abandoned=False,
        )
        for path in paths
        if (match := TREES.fullmatch(path.name))
    ]


def _pointers(path: Path) -> dict[str, Json]:
    try:
        value = read_json(path)
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
