"""Folder reuse: the next checkpoint is written over a removed one."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import uuid
import weakref
from pathlib import Path
from typing import final

from trainwright.core.files import FILE_MODE, FOLDER_MODE, read_umask

TEMPORARY = ".tmp-"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OVER = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


@final
class Spare:
    """Provides the folder that a checkpoint is written into: a removed one, if any.

    A disk writes faster into blocks that a file already owns, and removing a large file takes time
    too: together this can be more than the write itself. At most one folder is kept, and only while
    this object exists.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: list[Path] = []
        weakref.finalize(self, _remove_as, os.getpid(), self._kept)

    def folder(self) -> Path:
        """Folder to write into, under a temporary name. The files in it are meaningless."""
        place = self._kept.pop() if self._kept else _temporary(self._folder)
        place.mkdir(exist_ok=True)
        # The permissions of the removed checkpoint may have been changed.
        place.chmod(FOLDER_MODE & ~read_umask())
        return place

    def keep(self, name: str) -> None:
        """Keep the folder of a checkpoint that is to be removed.

        Raises:
            OSError: the checkpoint is still there.
        """
        aside = _temporary(self._folder)
        (self._folder / name).rename(aside)
        self.give_up()
        self._kept.append(aside)

    def give_up(self) -> None:
        """Remove the kept folder."""
        _remove(self._kept)


def open_reused(path: Path) -> int:
    """Overwrite a file of the reused folder, unless it has other hard links or its permissions were
    changed."""
    with contextlib.suppress(FileNotFoundError):
        found = path.lstat()
        alone = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
        if (
            alone
            and stat.S_IMODE(found.st_mode) == FILE_MODE & ~read_umask()
            and found.st_uid == os.geteuid()
        ):
            return os.open(path, _OVER)
        clear_path(path)
    return os.open(path, _NEW, FILE_MODE)


def clear_path(path: Path) -> None:
    """Remove a file or a folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def discard(folder: Path, name: str) -> None:
    """Remove a checkpoint's folder; an interrupted removal is completed when the storage is opened.

    Raises:
        OSError: the checkpoint is still there.
    """
    spare = Spare(folder)
    spare.keep(name)
    spare.give_up()


def _remove(kept: list[Path]) -> None:
    while kept:
        shutil.rmtree(kept.pop(), ignore_errors=True)


def _remove_as(owner: int, kept: list[Path]) -> None:
    """A process forked from the owner has a copy of this object, but does not own the folder."""
    if os.getpid() == owner:
        _remove(kept)


def _temporary(folder: Path) -> Path:
    return folder / f"{TEMPORARY}{uuid.uuid4().hex}"
