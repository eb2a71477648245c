"""Folder reuse: the next checkpoint is written over a removed one."""

from __future__ import annotations

import os
import shutil
import uuid
import weakref
from pathlib import Path
from typing import final

from trainwright.core.files import FOLDER_MODE, read_umask

TEMPORARY = ".tmp-"


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
