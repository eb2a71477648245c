"""`manifest.json`: files of a checkpoint, with size and hash."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from mmap import mmap
from typing import Self

from torch import Tensor

from trainwright.checkpoint.files.tensor_file import read_tensors
from trainwright.checkpoint.keeping.score import NotScored, score_from_json, score_to_json
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
"""Reads a file of one checkpoint by name, up to a size limit; raises `Damaged` if it is lost or
larger, `StorageFailed` if it cannot be read at the moment."""


def tensor_file_of(part: str) -> str:
    """File name of a part's tensors."""
    return f"{part}.safetensors"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file other than the manifest."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Contents of a checkpoint.

    `lineage` is shared by all checkpoints of a run, `sequence` counts them, `parent` names the
    previous one. `layouts` gives each part's tensors with dtype and shape; a part without tensors
    has an empty layout and no file.
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
        """Bytes of the file: the content and its hash."""
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
        """Inverse of `to_bytes`.

        Raises:
            Damaged: any bit has changed, or the format is another one.
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
    """Manifest of a checkpoint and the SHA-256 of its bytes.

    Raises:
        Damaged: missing or corrupt. StorageFailed: it cannot be read at the moment.
    """
    data = bytes(read(MANIFEST, _MAX_MANIFEST_BYTES))
    try:
        return Manifest.from_bytes(data), hash_bytes(data)
    except Damaged as error:
        raise Damaged(f"{MANIFEST}: {error}") from None


def read_parts(read: ReadFile, manifest: Manifest) -> dict[str, Snapshot]:
    """All parts, each file checked against the manifest.

    Raises:
        Damaged: a file is missing or corrupt. StorageFailed: as `read_manifest`.
    """
    files = {file.name: file for file in manifest.files}
    values = read_canonical(bytes(_verified(read, files, VALUES)))
    if not isinstance(values, dict) or set(values) != set(manifest.layouts):
        raise Damaged(f"{VALUES}: other parts than the manifest names")
    tensors = {part: layout for part, layout in manifest.layouts.items() if layout}
    with ThreadPoolExecutor(_READERS, thread_name_prefix="verify") as pool:
        # Hashing is most of the work; the files are hashed in parallel.
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
    """Bytes of a file that match the manifest.

    Raises:
        Damaged: they do not. StorageFailed: as `read_manifest`.
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
