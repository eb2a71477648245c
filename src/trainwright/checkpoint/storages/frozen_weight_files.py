"""Base files: frozen weights that the checkpoints of a storage share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, final, runtime_checkable

from trainwright.checkpoint.files.file_entry import Bytes, FileEntry, ReadFile, read_verified
from trainwright.checkpoint.files.manifest import base_file_of
from trainwright.checkpoint.files.tensor_file import blocks
from trainwright.checkpoint.frozen_weights import BaseTensor, FrozenBase
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.storages.storage import Block
from trainwright.checkpoint.strict_json import Damaged


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
