"""Safety of a run folder's contents: regular files and folders only."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from trainwright.core.errors import Mistake, Problem, StorageFailed


def check_contents(path: Path) -> None:
    """Refuse a run folder with a link that leads outside, a pipe, a socket or a device: writing
    through the former changes files elsewhere, reading the latter may block forever.

    Raises:
        Mistake: there is one. StorageFailed: a folder in it cannot be listed.
    """
    root = path.resolve()
    for entry in _entries(path):
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except FileNotFoundError:  # a run that is at work removes what it no longer needs
            continue
        if stat.S_ISLNK(mode):
            try:
                target = Path(entry.path).resolve()
            except (OSError, RuntimeError) as error:
                raise _refused(Path(entry.path), "a link that leads to itself") from error
            if not target.is_relative_to(root):
                raise _refused(Path(entry.path), f"a link to {target}")
        elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise _refused(Path(entry.path), "a pipe, a socket or a device")


def _entries(path: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(path) as listed:
            entries = list(listed)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageFailed(f"listing {path}: {error.strerror or error}") from error
    for entry in entries:
        yield entry
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(Path(entry.path))


def _refused(path: Path, found: str) -> Mistake:
    return Mistake(
        Problem(
            "a run folder holds files and folders only, and no link that leads out of it",
            found=f"{path}: {found}",
            expected="a file or a folder",
            fix="remove it, or put the file itself in its place",
        )
    )
