"""Where checkpoints are put: the seam between what they are and how a storage keeps them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from mmap import mmap
from typing import Protocol, final

from trainwright.checkpoint.catalog import Candidate, Catalog
from trainwright.checkpoint.ledger import LedgerLine
from trainwright.checkpoint.manifest import Bytes
from trainwright.checkpoint.score import NotScored

Block = bytes | bytearray | memoryview | mmap

Leaving = Callable[[Collection[str]], Sequence[LedgerLine]]
"""Which checkpoints leave, given the names of the pinned ones."""


@final
@dataclass(frozen=True, slots=True)
class FileSet:
    """A checkpoint on its way into a storage.

    `files` gives each file's name and bytes, once, the manifest last: its bytes are known only when
    all others were taken. `beside` are lines about other checkpoints that become true together with
    this one: those of a course that the run leaves by it.
    """

    name: str
    lineage: str
    sequence: int
    score: float | NotScored
    size_bytes: int
    files: Iterator[tuple[str, Iterable[Block]]]
    beside: tuple[LedgerLine, ...] = ()

    def line(self, manifest_sha256: str) -> LedgerLine:
        """What a ledger says of it once it is committed."""
        return LedgerLine(
            "committed", self.lineage, self.sequence, self.name, manifest_sha256, self.score
        )


class CheckpointStorage(Protocol):
    """Keeps checkpoints as named sets of files. One process at a time writes to it.

    A set is there whole or not at all: an implementation must not show one whose manifest is not
    complete, or whose other files are not, and must leave nothing of one that failed which a later
    `open` would take for a checkpoint. It must raise `StorageFailed`, and nothing else, where a
    call may succeed later; `Damaged` where a file is lost or longer than it may be; and must refuse
    names that lead out of it.
    """

    def open(self) -> Catalog:
        """What is there, after what was interrupted is finished or undone."""
        ...

    def commit(self, files: FileSet) -> LedgerLine:
        """Take a checkpoint in. One of the same name is replaced, and comes back if this fails."""
        ...

    def read(self, name: str, file: str, limit_bytes: int) -> Bytes:
        """A file of a checkpoint, of at most so many bytes."""
        ...

    def retain(self, pointers: Mapping[str, str], leaving: Leaving) -> Iterator[LedgerLine]:
        """Move the pointers, then remove what leaves; gives each one that is removed."""
        ...

    def set_aside(self, candidate: Candidate) -> str:
        """Take a checkpoint that does not verify out of the way, without losing it; says where it
        is, or nothing."""
        ...
