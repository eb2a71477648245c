"""File of a checkpoint, with the size and hash that it must have."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from mmap import mmap

from trainwright.checkpoint.strict_json import Damaged, read_count
from trainwright.core.files import Json
from trainwright.core.paths import check_name

Bytes = bytes | bytearray | mmap

ReadFile = Callable[[str, int], Bytes]
"""Reads a file of one checkpoint by name, up to a size limit; raises `Damaged` if it is lost or
larger, `StorageFailed` if it cannot be read at the moment."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file other than the manifest."""

    name: str
    size_bytes: int
    sha256: str

    def to_json(self) -> Json:
        """Entry in the manifest."""
        return {"name": self.name, "size_bytes": self.size_bytes, "sha256": self.sha256}


def file_entry(value: Json) -> FileEntry:
    """Inverse of `FileEntry.to_json`.

    Raises:
        Mistake: an unsafe name. KeyError, TypeError, ValueError: not an entry.
    """
    return FileEntry(
        check_name(value["name"], "a file"), read_count(value["size_bytes"]), str(value["sha256"])
    )


def read_verified(read: ReadFile, file: FileEntry) -> Bytes:
    """Bytes of a file that match the manifest.

    Raises:
        Damaged: they do not. StorageFailed: it cannot be read at the moment.
    """
    data = read(file.name, file.size_bytes)
    if len(data) != file.size_bytes:
        raise Damaged(f"{file.name}: {len(data)} bytes instead of {file.size_bytes}")
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise Damaged(f"{file.name}: its hash is not that of the manifest")
    return data
