"""File of a checkpoint: its name, size and hash, and reads of regular files only."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path
from typing import Final

from trainwright.checkpoint.strict_json import Damaged, read_count
from trainwright.core.errors import StorageFailed
from trainwright.core.files import Json, check_name

LEDGER: Final = "ledger.jsonl"
POINTERS: Final = "pointers.json"
QUARANTINE: Final = "quarantine-"
"""Prefix of checkpoints that failed verification."""

TREES: Final = re.compile(r"trees-([0-9]{10})\.json")
_STEP = re.compile(r"step-[0-9]{10,18}")
Bytes = bytes | bytearray | mmap

ReadFile = Callable[[str, int], Bytes]
"""Reads a file of one checkpoint by name, up to a size limit; raises `Damaged` if it is lost or
larger, `StorageFailed` if it cannot be read at the moment."""

_LOST = frozenset({errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EIO})


def name_of(step: int) -> str:
    """Name of the checkpoint of a step."""
    return f"step-{step:010d}"


def step_of(name: str) -> int:
    """Step of a checkpoint name."""
    return int(name.removeprefix("step-"))


def is_checkpoint(name: str) -> bool:
    """Is this a valid checkpoint name?"""
    return bool(_STEP.fullmatch(name))


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


def read_file(folder: Path, name: str, limit_bytes: int) -> Bytes:
    """Bytes of a regular file directly in `folder`; links are not followed.

    Raises:
        Damaged: lost, or larger than the limit. StorageFailed: it cannot be read at the moment.
    """
    try:
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=root)
        finally:
            os.close(root)
        with os.fdopen(descriptor, "rb", buffering=0):
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise Damaged(f"{name}: not a regular file")
            if found.st_size > limit_bytes:
                raise Damaged(f"{name}: {found.st_size} bytes are more than {limit_bytes}")
            return _whole(descriptor, found.st_size)
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _LOST:
            raise Damaged(f"{name}: {reason}") from error
        raise StorageFailed(f"reading {folder / name}: {reason}") from error


def _whole(descriptor: int, size: int) -> Bytes:
    """Bytes of the file in newly allocated memory; fewer if it was truncated meanwhile.

    The file is not memory-mapped: on a failing disk, or if another machine writes to it, touching a
    mapped page can kill the process, whereas a read returns an error.
    """
    if not size:
        return b""
    memory = mmap(-1, size)
    taken = 0
    with memoryview(memory) as room:
        while taken < size and (count := os.preadv(descriptor, [room[taken:]], taken)):
            taken += count
    return memory if taken == size else memory[:taken]
