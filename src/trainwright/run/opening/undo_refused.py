"""Undo of refused runs: the folder of a new run is removed, and that of a resumed run restored.
What was trained before the mistake stays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self, final

from trainwright.checkpoint.files.file_entry import name_of
from trainwright.core.errors import Mistake, NoValidCheckpoint
from trainwright.core.files import storage_errors
from trainwright.tracking.run_folder import RunFolder


@final
@dataclass(frozen=True, slots=True)
class NewFolders:
    """Folders that do not exist yet and that a run may create, innermost last."""

    missing: tuple[Path, ...]

    @classmethod
    def of(cls, place: Path) -> Self:
        """Missing folders of a path, its parents included."""
        missing = [path for path in (place, *place.parents) if not os.path.lexists(path)]
        return cls(tuple(reversed(missing)))

    def remove_empty(self) -> None:
        """Remove those that are empty."""
        for path in reversed(self.missing):
            try:
                path.rmdir()
            except OSError:  # another process has put something there
                return


@contextmanager
def locked_new(folder: RunFolder, made: NewFolders) -> Iterator[None]:
    """Lock of a folder in which a run begins; if it is refused before it has trained anything, the
    folders it created are removed, and an existing folder is emptied again."""
    try:
        with folder.lock():
            try:
                yield
            except Mistake:
                if not _trained(folder):
                    _empty(folder)
                raise
    except Mistake:
        made.remove_empty()
        raise


@contextmanager
def restored_if_refused(folder: RunFolder, *, extended: bool = False) -> Iterator[None]:
    """If a resumed run is refused in the block before it has trained anything, its files are
    restored; one to be extended also if it has no checkpoint to go on from, since it has a verdict
    to lose."""
    trained, kept = _trained(folder), folder.path / f".tmp-{os.getpid()}-before"
    sizes = {path: path.stat().st_size for path in _growing(folder) if path.exists()}
    with storage_errors(f"keeping the files of {folder.path}"):
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir()
        for path in _small(folder):
            copy = kept / path.relative_to(folder.path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            _link(path, copy)
    refusals = (Mistake, NoValidCheckpoint) if extended else (Mistake,)
    try:
        yield
    except refusals:
        if _trained(folder) <= trained:
            _put_back(folder, kept, sizes)
        raise
    finally:
        shutil.rmtree(kept, ignore_errors=True)


def _put_back(folder: RunFolder, kept: Path, sizes: Mapping[Path, int]) -> None:
    assert kept.is_dir(), "what was kept is there as long as the run is open"
    with storage_errors(f"putting back the files of {folder.path}"):
        for path in _small(folder):
            if not (kept / path.relative_to(folder.path)).exists():
                path.unlink()
        for copy in sorted(kept.rglob("*")):
            path = folder.path / copy.relative_to(kept)
            if copy.is_file() and not (path.exists() and copy.samefile(path)):
                copy.replace(path)
        if folder.endings.is_dir() and not any(folder.endings.iterdir()):
            folder.endings.rmdir()
        for path in filter(Path.exists, _growing(folder)):
            if path.stat().st_size > sizes.get(path, 0):
                os.truncate(path, sizes.get(path, 0))


def _growing(folder: RunFolder) -> tuple[Path, Path]:
    """Files to which a start appends lines."""
    return folder.events, folder.path / "log.txt"


def _small(folder: RunFolder) -> list[Path]:
    """Files that a start replaces as a whole; files that grow by lines are not among them."""
    files = [path for path in folder.path.glob("*") if path.suffix != ".jsonl"]
    left = (folder.lock_file, *_growing(folder))
    files = [path for path in files if path not in left and path.is_file()]
    for part in (folder.data, folder.endings):
        files += [path for path in part.rglob("*") if path.is_file()]
    return [path for path in files if not path.name.startswith(".tmp-")]


def _link(path: Path, copy: Path) -> None:
    """Each write replaces a file, so a hard link keeps its old content."""
    try:
        os.link(path, copy)
    except OSError:  # a file system without second names
        shutil.copy2(path, copy)


def _trained(folder: RunFolder) -> set[Path]:
    """Checkpoints after the first step, saved trees, models and recorded steps, of the trainings
    inside it too."""
    # Imported here: few runs are refused.
    from trainwright.tracking.run_list import inner_trainings

    inner = [path for _, path in inner_trainings(folder)]
    found: set[Path] = set()
    for run in (folder, *map(RunFolder, inner)):
        steps = (path for path in run.checkpoints.glob("step-*") if path.name != name_of(0))
        others = (run.bundle, run.signals)
        found |= {*steps, *run.checkpoints.glob("trees-*")}
        found |= {*(path for path in others if path.exists() and path.stat().st_size)}
    return found


def _empty(folder: RunFolder) -> None:
    with storage_errors(f"emptying {folder.path}"):
        for path in folder.path.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path != folder.lock_file:
                path.unlink()
        # Last, so that the folder is owned by this process until it is empty.
        folder.lock_file.unlink(missing_ok=True)
