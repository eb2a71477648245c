"""`manifest.json`: what a checkpoint consists of, with the size and hash of every file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from mmap import mmap
from typing import Self

from torch import Tensor

from trainwright.checkpoint.score import NotScored, score_from_json, score_to_json
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.strict_json import (
    Damaged,
    pack,
    read_canonical,
    read_count,
    read_sealed,
    unpack,
    write_sealed,
)
from trainwright.checkpoint.tensor_file import read_tensors
from trainwright.core.errors import Mistake
from trainwright.core.files import Json
from trainwright.core.hashing import hash_bytes
from trainwright.core.paths import check_name

FORMAT = 1
MANIFEST = "manifest.json"
VALUES = "values.json"
_MAX_MANIFEST_BYTES = 64 * 1024 * 1024
_READERS = 2

Bytes = bytes | bytearray | mmap

ReadFile = Callable[[str, int], Bytes]
"""Reads a file of one checkpoint by its name, of at most so many bytes; raises `Damaged` where it
is lost or larger, `StorageFailed` where it cannot be read just now."""


def tensor_file_of(part: str) -> str:
    """The name of the file with a part's tensors."""
    return f"{part}.safetensors"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file beside the manifest."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a checkpoint consists of.

    `lineage` is the same for all checkpoints of a run, `sequence` counts them, `parent` names the
    one before. `layouts` gives each part's tensors with dtype and shape; a part without tensors has
    an empty one and no file.
    """

    lineage: str
    sequence: int
    step: int
    parent: str
    score: float | NotScored
    layouts: Mapping[str, Json]
    inventory: Json
    files: tuple[FileEntry, ...]

    def to_bytes(self) -> bytes:
        """The file's bytes: the content and the hash of it."""
        content = {
            "lineage": self.lineage,
            "sequence": self.sequence,
            "step": self.step,
            "parent": self.parent,
            "score": score_to_json(self.score),
            "parts": dict(self.layouts),
            "inventory": pack(self.inventory),
            "files": [
                {"name": file.name, "size_bytes": file.size_bytes, "sha256": file.sha256}
                for file in self.files
            ],
        }
        return write_sealed(content, FORMAT)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read `to_bytes`.

        Raises:
            Damaged: any bit of it has changed, or it is of another format.
        """
        content = read_sealed(data, FORMAT)
        try:
            return cls(
                lineage=content["lineage"],
                sequence=read_count(content["sequence"]),
                step=read_count(content["step"]),
                parent=content["parent"],
                score=score_from_json(content["score"]),
                layouts={check_name(part, "a part"): x for part, x in content["parts"].items()},
                inventory=unpack(content["inventory"]),
                files=tuple(_file_entry(file) for file in content["files"]),
            )
        except (KeyError, TypeError, AttributeError, ValueError, Mistake) as error:
            raise Damaged(f"not the manifest of a checkpoint: {error}") from None


def read_manifest(read: ReadFile) -> tuple[Manifest, str]:
    """The manifest of a checkpoint and the SHA-256 of its bytes.

    Raises:
        Damaged: missing or not what was written. StorageFailed: it cannot be read just now.
    """
    data = bytes(read(MANIFEST, _MAX_MANIFEST_BYTES))
    try:
        return Manifest.from_bytes(data), hash_bytes(data)
    except Damaged as error:
        raise Damaged(f"{MANIFEST}: {error}") from None


def read_parts(read: ReadFile, manifest: Manifest) -> dict[str, Snapshot]:
    """Every part, each file checked against the manifest.

    Raises:
        Damaged: a file is missing or not what was written. StorageFailed: as `read_manifest`.
    """
    files = {file.name: file for file in manifest.files}
    values = read_canonical(bytes(_verified(read, files, VALUES)))
    if not isinstance(values, dict) or set(values) != set(manifest.layouts):
        raise Damaged(f"{VALUES}: other parts than the manifest names")
    tensors = {part: layout for part, layout in manifest.layouts.items() if layout}
    with ThreadPoolExecutor(_READERS, thread_name_prefix="verify") as pool:
        # Hashing is most of the work, and it runs beside itself.
        read_part = partial(_read_part, read, files)
        found = dict(zip(tensors, pool.map(read_part, tensors, tensors.values()), strict=True))
    return {
        part: Snapshot.owning(found.get(part, {}), unpack(values[part]))
        for part in manifest.layouts
    }


def _read_part(
    read: ReadFile, files: Mapping[str, FileEntry], part: str, layout: Json
) -> dict[str, Tensor]:
    name = tensor_file_of(part)
    data = _verified(read, files, name)
    try:
        return read_tensors(data, layout)
    except Damaged as error:
        raise Damaged(f"{name}: {error}") from None


def read_verified(read: ReadFile, file: FileEntry) -> Bytes:
    """The bytes of a file that are those of the manifest.

    Raises:
        Damaged: they are not. StorageFailed: as `read_manifest`.
    """
    data = read(file.name, file.size_bytes)
    if len(data) != file.size_bytes:
        raise Damaged(f"{file.name}: {len(data)} bytes instead of {file.size_bytes}")
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise Damaged(f"{file.name}: its hash is not that of the manifest")
    return data


def _verified(read: ReadFile, files: Mapping[str, FileEntry], name: str) -> Bytes:
    entry = files.get(name)
    if entry is None:
        raise Damaged(f"{name}: not in the manifest")
    return read_verified(read, entry)


def _file_entry(value: Json) -> FileEntry:
    return FileEntry(
        check_name(value["name"], "a file"), read_count(value["size_bytes"]), str(value["sha256"])
    )
