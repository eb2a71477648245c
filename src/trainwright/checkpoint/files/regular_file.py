"""Safe reads of checkpoint files: regular files only, no links, bounded size."""

from __future__ import annotations

import errno
import mmap
import os
import stat
from pathlib import Path

from trainwright.checkpoint.files.file_entry import Bytes
from trainwright.checkpoint.strict_json import Damaged
from trainwright.core.errors import StorageFailed

_LOST = frozenset({errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EIO})


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
    memory = mmap.mmap(-1, size)
    taken = 0
    with memoryview(memory) as room:
        while taken < size and (count := os.preadv(descriptor, [room[taken:]], taken)):
            taken += count
    return memory if taken == size else memory[:taken]
