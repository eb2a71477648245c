"""Pinned checkpoints: marker files, read by the run that owns the folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainwright.core.files import sync_folder, write_synced

_MARK = "pinned-"


def read_pins(folder: Path) -> set[str]:
    """Names of the pinned checkpoints.

    Raises:
        OSError: the folder cannot be read.
    """
    return {path.name.removeprefix(_MARK) for path in folder.glob(f"{_MARK}step-*")}


def pin(folder: Path, name: str) -> bool:
    """Pin a checkpoint; whether it exists.

    Raises:
        OSError: the marker could not be written.
    """
    with nothing_is_removed(folder):
        if not (folder / name).is_dir():
            return False
        write_synced(folder / f"{_MARK}{name}", b"")
        sync_folder(folder)
    return True


def unpin(folder: Path, name: str) -> bool:
    """Unpin a checkpoint; whether it was pinned.

    Raises:
        OSError: it is still there.
    """
    mark = folder / f"{_MARK}{name}"
    if not mark.exists():
        return False
    mark.unlink()
    sync_folder(folder)
    return True


@contextmanager
def nothing_is_removed(folder: Path) -> Iterator[None]:
    """Inside the block no other process removes or pins a checkpoint of the folder.

    Raises:
        OSError: the folder cannot be opened.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
