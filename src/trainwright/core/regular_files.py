"""Reading regular files only: opening a pipe could block forever, and a device must not be read."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def opened_regular(path: Path, *, follow: bool = True) -> Iterator[BinaryIO]:
    """`path` opened for reading, without blocking.

    Raises:
        OSError: it cannot be opened, or is no regular file; a link is none unless `follow`.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        yield stream


def read_regular(path: Path, most_bytes: int, *, follow: bool = True) -> bytes:
    """Bytes of a regular file.

    Raises:
        OSError: as `opened_regular`. ValueError: it has more than `most_bytes`.
    """
    with opened_regular(path, follow=follow) as stream:
        data = stream.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ValueError(f"{path.name} holds more than {most_bytes} bytes")
    return data
