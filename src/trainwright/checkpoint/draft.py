"""From snapshots, or from a checkpoint that lies in a storage already, to the files of one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from trainwright.checkpoint.ledger import Line
from trainwright.checkpoint.manifest import (
    MANIFEST,
    VALUES,
    FileEntry,
    Manifest,
    read_manifest,
    read_verified,
    tensor_file_of,
)
from trainwright.checkpoint.names import name_of
from trainwright.checkpoint.score import NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.storage import Block, CheckpointStorage, FileSet
from trainwright.checkpoint.strict_json import write_canonical
from trainwright.checkpoint.tensor_file import blocks, describe
from trainwright.core.files import Json
from trainwright.core.paths import check_name

_CHUNK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Draft:
    """A checkpoint that is to be written."""

    lineage: str
    sequence: int
    step: int
    parent: str
    score: float | NotScored
    parts: Mapping[str, Snapshot]
    inventory: Json


def files_of(draft: Draft, beside: tuple[Line, ...]) -> FileSet:
    """The files of a draft, hashed while they are taken."""
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
    )


def stored_files(storage: CheckpointStorage, name: str, beside: tuple[Line, ...]) -> FileSet:
    """The files of a checkpoint that lies in a storage, each verified when it is taken.

    Raises:
        Damaged: it does not verify; also while the files are taken. StorageFailed: not readable.
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
        beside=beside,
    )


def _files(draft: Draft, values: bytes) -> Iterator[tuple[str, Iterable[Block]]]:
    layouts = {part: describe(snapshot.tensors) for part, snapshot in draft.parts.items()}
    hashed: list[FileEntry] = []
    with ThreadPoolExecutor(1, thread_name_prefix="hash") as pool:
        yield VALUES, _hashed(VALUES, [values], hashed, pool)
        for part, snapshot in draft.parts.items():
            if snapshot.tensors:
                name = tensor_file_of(part)
                yield name, _hashed(name, blocks(snapshot.tensors), hashed, pool)
    manifest = Manifest(
        lineage=draft.lineage,
        sequence=draft.sequence,
        step=draft.step,
        parent=draft.parent,
        score=draft.score,
        layouts=layouts,
        inventory=draft.inventory,
        files=tuple(hashed),
    )
    yield MANIFEST, [manifest.to_bytes()]


def _hashed(
    name: str, data: Iterable[Block], hashed: list[FileEntry], pool: ThreadPoolExecutor
) -> Iterator[memoryview]:
    """The blocks in chunks. A large chunk is hashed in a thread while the taker writes it."""
    digest = hashlib.sha256()
    size = 0
    for block in data:
        rest = memoryview(block)
        size += len(rest)
        while rest:
            chunk, rest = rest[:_CHUNK_BYTES], rest[_CHUNK_BYTES:]
            if len(chunk) < _CHUNK_BYTES:
                digest.update(chunk)
                yield chunk
            else:
                hashing = pool.submit(digest.update, chunk)
                yield chunk
                hashing.result()
    hashed.append(FileEntry(name, size, digest.hexdigest()))
