"""What is known of the checkpoints in a storage, while a process owns it."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import final

from trainwright.checkpoint.file_names import step_of
from trainwright.checkpoint.ledger import LedgerLine
from trainwright.checkpoint.retention import Entry, with_abandoned


@dataclass(frozen=True, slots=True)
class NotInLedger:
    """No line of the ledger is about this checkpoint; its own manifest has to vouch for it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A checkpoint that may be whole. `sequence` orders them."""

    sequence: int
    name: str
    line: LedgerLine | NotInLedger


@final
@dataclass(slots=True)
class Catalog:
    """What is known of a storage while a process owns it."""

    lineage: str
    entries: dict[str, Entry]
    candidates: list[Candidate]
    sequence: int
    """The highest one in use."""
    newest: str
    """Name of the newest committed checkpoint; empty before the first."""
    damaged: tuple[str, ...]
    """What in the storage says nothing any more."""
    has_history: bool
    commits: tuple[Entry, ...]
    """All that the storage knows of at its opening, in order, also of what has gone since."""

    def left_by(self, step: int, sequence: int) -> tuple[LedgerLine, ...]:
        """What becomes true with a save of `step`: the run leaves the course of later steps that
        were saved before it. A copy may come after those of later saves, and leaves none."""
        later = {
            entry.name
            for entry in self.entries.values()
            if entry.step > step and entry.sequence < sequence and not entry.abandoned
        }
        lines = [c.line for c in self.candidates if c.name in later]
        return tuple(line.now("abandoned") for line in lines if isinstance(line, LedgerLine))

    def remove(self, name: str) -> None:
        """A checkpoint is no longer there."""
        self.entries.pop(name, None)
        self.candidates = [one for one in self.candidates if one.name != name]

    def add(self, line: LedgerLine, beside: Sequence[LedgerLine]) -> None:
        """Take in a checkpoint that was just committed, and the lines beside it."""
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
    """What a line of the ledger says for retention."""
    left = line.kind == "abandoned"
    return Entry(line.sequence, line.name, line.score, step_of(line.name), left)


def new_lineage() -> str:
    """What the checkpoints of one run have in common, for a run that has none yet."""
    return uuid.uuid4().hex


def in_order(live: Sequence[Candidate], left: Collection[str]) -> list[Candidate]:
    """Newest first, those that the run has left last. What has no readable manifest and no line is
    tried before all: it must not be passed over unseen."""

    def rank(candidate: Candidate) -> tuple[bool, bool, int, str]:
        sequence, name = candidate.sequence, candidate.name
        return (sequence < 0, name not in left, sequence, name)

    return sorted(live, key=rank, reverse=True)
