"""The folder of a checkpoint that was removed: the next one is written over it."""

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
    """Gives the folder that a checkpoint is written into, which is one that was removed, if any.

    A disk takes a block that a file has already sooner than one that must be found first, and
    removing a large file takes its time too: together they can be more than the writing. At most
    one folder is kept, and only as long as this object is.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: list[Path] = []
        weakref.finalize(self, _remove_as, os.getpid(), self._kept)

    def folder(self) -> Path:
        """A folder to write into, below a temporary name. The files in it mean nothing."""
        place = self._kept.pop() if self._kept else _temporary(self._folder)
        place.mkdir(exist_ok=True)
        # A person may have changed who looks into the checkpoint that it was.
        place.chmod(FOLDER_MODE & ~read_umask())
        return place

    def keep(self, name: str) -> None:
        """Take a checkpoint that is to be removed out of the way.

        Raises:
            OSError: it is still there.
        """
        aside = _temporary(self._folder)
        (self._folder / name).rename(aside)
        self.give_up()
        self._kept.append(aside)

    def give_up(self) -> None:
        """Remove what was kept."""
        _remove(self._kept)


def discard(folder: Path, name: str) -> None:
    """Remove a checkpoint's folder; one that is cut short is finished when the storage is opened.

    Raises:
        OSError: it is still there.
    """
    spare = Spare(folder)
    spare.keep(name)
    spare.give_up()


def _remove(kept: list[Path]) -> None:
    while kept:
        shutil.rmtree(kept.pop(), ignore_errors=True)


def _remove_as(owner: int, kept: list[Path]) -> None:
    """A process that was forked from the owner has a copy of the object, and not the folder."""
    if os.getpid() == owner:
        _remove(kept)


def _temporary(folder: Path) -> Path:
    return folder / f"{TEMPORARY}{uuid.uuid4().hex}"
