"""Reading a file of a checkpoint from the disk: a regular file, no link, no more than expected."""

from __future__ import annotations

import errno
import mmap
import os
import stat
from pathlib import Path

from trainwright.checkpoint.manifest import Bytes
from trainwright.checkpoint.strict_json import Damaged
from trainwright.core.errors import StorageFailed

_LOST = frozenset({errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EIO})


def read_file(folder: Path, name: str, limit_bytes: int) -> Bytes:
    """The bytes of a regular file directly in `folder`; links are not followed.

    Raises:
        Damaged: lost, or larger than the limit. StorageFailed: it cannot be read just now.
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
            return _mapped(descriptor, found.st_size)
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _LOST:
            raise Damaged(f"{name}: {reason}") from error
        raise StorageFailed(f"reading {folder / name}: {reason}") from error


def _mapped(descriptor: int, size: int) -> Bytes:
    """The file in memory without a copy of it; what is written to it stays in this process.

    It outlives the file's name, and the process that owns the folder never writes into a file that
    has one.
    """
    if not size:
        return b""
    return mmap.mmap(descriptor, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
