"""Checkpoint storage protocol: separates the contents of checkpoints from how they are stored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from mmap import mmap
from typing import Protocol, final

from trainwright.checkpoint.files.file_entry import Bytes, FileEntry
from trainwright.checkpoint.files.shard_files import WrittenShards
from trainwright.checkpoint.keeping.retention import NotScored
from trainwright.checkpoint.storages.catalog import Candidate, Catalog
from trainwright.checkpoint.storages.ledger import LedgerLine

Block = bytes | bytearray | memoryview | mmap

Leaving = Callable[[Collection[str]], Sequence[LedgerLine]]
"""Names to remove, given those of the pinned checkpoints."""


@final
@dataclass(frozen=True, slots=True)
class FileSet:
    """Checkpoint to be committed to a storage.

    `files` yields each file's name and bytes, once, the manifest last: its bytes are known only
    when all others were consumed. `beside` are lines about other checkpoints that become true
    together with this one: those that the run abandons by it. `bases` are the shared files that it
    refers to, which must be stored before it; `shards` are files of it that other processes wrote,
    which `size_bytes` leaves out.
    """

    name: str
    lineage: str
    sequence: int
    score: float | NotScored
    size_bytes: int
    files: Iterator[tuple[str, Iterable[Block]]]
    beside: tuple[LedgerLine, ...] = ()
    bases: tuple[FileEntry, ...] = ()
    shards: WrittenShards = field(default_factory=WrittenShards)

    def line(self, manifest_sha256: str) -> LedgerLine:
        """Its ledger line once it is committed."""
        return LedgerLine(
            "committed", self.lineage, self.sequence, self.name, manifest_sha256, self.score
        )


class CheckpointStorage(Protocol):
    """Stores checkpoints as named sets of files. One process at a time writes to it.

    A set is stored atomically: an implementation must not expose one whose manifest or other files
    are incomplete, and a failed one must leave nothing that a later `open` would take for a
    checkpoint. It must raise `StorageFailed`, and nothing else, where a call may succeed later;
    `Damaged` where a file is lost or larger than its limit; and must refuse names that escape it.
    """

    def open(self) -> Catalog:
        """Current contents, after interrupted operations are completed or undone."""
        ...

    def commit(self, files: FileSet) -> LedgerLine:
        """Commit a checkpoint. One of the same name is replaced, and restored if this fails."""
        ...

    def read(self, name: str, file: str, limit_bytes: int) -> Bytes:
        """Read a file of a checkpoint, up to a size limit."""
        ...

    def retain(self, pointers: Mapping[str, str], leaving: Leaving) -> Iterator[LedgerLine]:
        """Move the pointers, then remove what leaves; yields each one removed."""
        ...

    def set_aside(self, candidate: Candidate) -> str:
        """Move a checkpoint that does not verify out of the way, without deleting it; its new
        location, if any."""
        ...
