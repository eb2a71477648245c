"""Files of a checkpoint, from snapshots or from another one, and frozen weights that several
share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, final, runtime_checkable

from trainwright.checkpoint.files.file_entry import (
    Bytes,
    FileEntry,
    ReadFile,
    name_of,
    read_verified,
)
from trainwright.checkpoint.files.manifest import (
    MANIFEST,
    VALUES,
    Frozen,
    Manifest,
    base_file_of,
    read_manifest,
    tensor_file_of,
)
from trainwright.checkpoint.files.shard_files import WrittenShards
from trainwright.checkpoint.files.tensor_file import blocks, describe
from trainwright.checkpoint.frozen_weights import BaseTensor, FrozenBase
from trainwright.checkpoint.keeping.retention import NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.storages.ledger import LedgerLine
from trainwright.checkpoint.storages.storage import Block, CheckpointStorage, FileSet
from trainwright.checkpoint.strict_json import Damaged, write_canonical
from trainwright.core.files import Json, check_name

_CHUNK_BYTES = 4 * 1024 * 1024
_HASHERS = 2


@runtime_checkable
class SharedFiles(Protocol):
    """A storage that keeps files next to its checkpoints, named by their content and never changed.

    A file must not be readable before it is stored in full. Errors are as in `CheckpointStorage`.
    """

    def holds(self, file: FileEntry) -> bool:
        """Is this file stored? In a local storage its content is compared, elsewhere its size."""
        ...

    def keep(self, file: FileEntry, content: Iterable[Block]) -> None:
        """Store a file; durable on return."""
        ...

    def read_shared(self, file: str, limit_bytes: int) -> Bytes:
        """Read a file, up to a size limit."""
        ...


@final
class BaseFiles:
    """Bases in one storage. A storage without shared files has none: there every checkpoint holds
    its frozen weights."""

    def __init__(self, storage: object) -> None:
        self._storage = storage
        self._known: dict[str, FileEntry] = {}

    @property
    def can_keep(self) -> bool:
        """Can this storage keep a base?"""
        return isinstance(self._storage, SharedFiles)

    def store(self, frozen: FrozenBase) -> str:
        """Store the tensors added to the base; SHA-256 of the file, empty without any.

        Raises:
            StorageFailed: not writable.
        """
        if not frozen.added:
            return ""
        assert isinstance(self._storage, SharedFiles), "only these have a base"
        content = list(blocks(frozen.added))
        digest = hashlib.sha256()
        for block in content:
            digest.update(block)
        sha256 = digest.hexdigest()
        file = FileEntry(base_file_of(sha256), sum(map(len, content)), sha256)
        if not self._storage.holds(file):
            self._storage.keep(file, content)
        self._known[sha256] = file
        frozen.settle(sha256)
        return sha256

    def learn(self, files: Sequence[FileEntry]) -> None:
        """Record the bases of a checkpoint that was loaded."""
        self._known |= {file.sha256: file for file in files}

    def used_by(self, frozen: Mapping[str, Mapping[str, BaseTensor]]) -> tuple[FileEntry, ...]:
        """Bases that these parts refer to."""
        used = {at.base for part in frozen.values() for at in part.values()}
        return tuple(self._known[sha256] for sha256 in sorted(used))


def frozen_of(parts: Mapping[str, Snapshot], added: str) -> dict[str, dict[str, BaseTensor]]:
    """Tensors of each part that stand in a base; `added` is the base stored for these parts."""
    return {
        part: {name: BaseTensor(at.base or added, at.name) for name, at in shot.in_base.items()}
        for part, shot in parts.items()
        if shot.in_base
    }


def base_reader(storage: object) -> ReadFile | None:
    """Reader of a storage's bases, if it keeps any."""
    return storage.read_shared if isinstance(storage, SharedFiles) else None


def copy_bases(files: Sequence[FileEntry], source: object, to: object) -> None:
    """Copy the bases of a checkpoint, those that are not there yet.

    Raises:
        Damaged: one does not verify, or a storage keeps none. StorageFailed: not readable, or not
            writable.
    """
    for file in files:
        if not isinstance(source, SharedFiles) or not isinstance(to, SharedFiles):
            raise Damaged(f"{file.name}: a storage that keeps no base")
        if not to.holds(file):
            to.keep(file, [read_verified(source.read_shared, file)])


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """Checkpoint to be written."""

    lineage: str
    sequence: int
    step: int
    parent: str
    score: float | NotScored
    parts: Mapping[str, Snapshot]
    inventory: Json
    bases: tuple[FileEntry, ...] = ()
    frozen: Frozen = field(default_factory=dict)
    shards: WrittenShards = field(default_factory=WrittenShards)


def files_of(draft: CheckpointFiles, beside: tuple[LedgerLine, ...]) -> FileSet:
    """Files of a draft, hashed as they are consumed. Its tensors must not change meanwhile."""
    for part in draft.parts:
        check_name(part, "a part of a checkpoint")
    values = write_canonical({part: shot.packed_values for part, shot in draft.parts.items()})
    return FileSet(
        name=name_of(draft.step),
        lineage=draft.lineage,
        sequence=draft.sequence,
        score=draft.score,
        size_bytes=len(values) + sum(shot.size_bytes for shot in draft.parts.values()),
        files=_files(draft, values),
        beside=beside,
        bases=draft.bases,
        shards=draft.shards,
    )


def stored_files(storage: CheckpointStorage, name: str) -> FileSet:
    """Files of a stored checkpoint, each verified when consumed.

    Raises:
        Damaged: it does not verify; also while the files are consumed. StorageFailed: not readable.
    """
    read = partial(storage.read, name)
    manifest, _ = read_manifest(read)
    return FileSet(
        name=name,
        lineage=manifest.lineage,
        sequence=manifest.sequence,
        score=manifest.score,
        size_bytes=sum(file.size_bytes for file in manifest.files),
        files=(
            (name, [data])
            for name, data in (
                *((file.name, read_verified(read, file)) for file in manifest.files),
                (MANIFEST, manifest.to_bytes()),
            )
        ),
        bases=manifest.bases,
    )


def _files(draft: CheckpointFiles, values: bytes) -> Iterator[tuple[str, Iterable[Block]]]:
    layouts = {part: describe(snapshot.tensors) for part, snapshot in draft.parts.items()}
    with ThreadPoolExecutor(_HASHERS, thread_name_prefix="hash") as pool:
        entries = [_hashing(VALUES, [values], pool)]
        yield VALUES, _chunks([values])
        for part, snapshot in draft.parts.items():
            if snapshot.tensors:
                name, data = tensor_file_of(part), list(blocks(snapshot.tensors))
                entries.append(_hashing(name, data, pool))
                yield name, _chunks(data)
        files = tuple(entry() for entry in entries)
    manifest = Manifest(
        lineage=draft.lineage,
        sequence=draft.sequence,
        step=draft.step,
        parent=draft.parent,
        score=draft.score,
        layouts=layouts,
        inventory=draft.inventory,
        files=(*files, *draft.shards.files),
        bases=draft.bases,
        frozen=draft.frozen,
        shards=draft.shards.parts,
    )
    yield MANIFEST, [manifest.to_bytes()]


def _hashing(name: str, data: Sequence[Block], pool: ThreadPoolExecutor) -> Callable[[], FileEntry]:
    """Returns a function for the entry of a file: a large one is hashed in a thread of its own,
    from one end to the other, while the consumer writes it and the next ones. Both are joined once,
    at the manifest."""
    if sum(map(len, data)) < _CHUNK_BYTES:
        return partial(_entry, name, data)
    return pool.submit(_entry, name, data).result


def _entry(name: str, data: Sequence[Block]) -> FileEntry:
    digest = hashlib.sha256()
    for block in data:
        digest.update(block)
    return FileEntry(name, sum(map(len, data)), digest.hexdigest())


def _chunks(data: Iterable[Block]) -> Iterator[memoryview]:
    """The blocks, cut to the maximum write size."""
    for block in data:
        rest = memoryview(block)
        while rest:
            chunk, rest = rest[:_CHUNK_BYTES], rest[_CHUNK_BYTES:]
            yield chunk
