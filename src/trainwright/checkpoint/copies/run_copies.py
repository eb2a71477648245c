"""Copies of a run's own files, made along with those of its checkpoints: see `copied_file_sets`."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, final

from trainwright.checkpoint.copies.copied_file_sets import (
    PIECE_BYTES,
    CopiedFile,
    CopiedSet,
    FileSets,
    NoSet,
)
from trainwright.checkpoint.files.file_entry import LEDGER
from trainwright.checkpoint.keeping.pins import read_pins
from trainwright.core.errors import Mistake, StorageFailed
from trainwright.core.files import check_name, opened_regular, storage_errors
from trainwright.tracking.clock import SystemClock, show_time
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.run_list import inner_trainings

OWN = "."
"""Part of a run that belongs to no fold and no other seed."""

_FOLDERS = ("data", "baselines", "bundle", "endings")
_GROWING = ".jsonl"
_BACKWARD_BYTES = 64 * 1024


@final
@dataclass(frozen=True, slots=True)
class Moment:
    """Files of a run between two steps, with the length of growing files; `course` counts
    rollbacks."""

    sizes: tuple[tuple[str, int], ...]
    course: int


class _Seen(NamedTuple):
    size_bytes: int
    written: int
    number: int


@final
class RunCopies:
    """Copies the files of a run. One thread copies; the training thread calls the rest.

    What is copied is an explicit list, so that nothing else in the folder leaves the machine:
    contract, plan, record, preflight, data description, signals and events, the ledger and pins of
    the checkpoints, and of a finished run its models, evaluation and checksums.

    Args:
        folder: that of the run, also when one of its folds is trained.
        sets: destination.
        lineage: of the run.
        part: what is trained: the path of a fold in the run folder, or `OWN`.
    """

    def __init__(self, folder: RunFolder, sets: FileSets, lineage: str, part: str = OWN) -> None:
        self._folder = folder
        self._sets = sets
        self._lineage = lineage
        self._part = part
        self._course = 0
        self._last: CopiedSet | NoSet = NoSet()
        self._number = -1
        self._begun: set[str] = set()
        self._known: dict[str, tuple[_Seen, CopiedFile]] = {}
        self._pieces: set[str] = set()

    def __str__(self) -> str:
        return str(self._sets)

    def is_of_another(self) -> bool:
        """Do the stored files belong to another run?

        Raises:
            StorageFailed: not readable.
        """
        there = self._sets.newest()
        return isinstance(there, CopiedSet) and there.lineage != self._lineage

    def moment(self) -> Moment:
        """Current files; for the training thread, between two steps."""
        with storage_errors(f"reading {self._folder.path}"):
            return Moment(tuple(_sizes(self._folder)), self._course)

    def go_back(self) -> None:
        """The run rolls back: the copy in progress is obsolete."""
        self._course += 1

    def take_checkpoint(self) -> None:
        """A checkpoint of the part was copied."""
        self._begun.add(self._part)

    def copy(self, moment: Moment) -> bool:
        """Copy the files; False, with nothing changed at the destination, if the run rolled back
        meanwhile.

        Raises:
            StorageFailed: not readable or not writable, or another process copies the run there.
        """
        self._open()
        files = [file for path, size in moment.sizes for file in self._copied(path, size)]
        if moment.course != self._course:
            return False
        if self._is_there(files):
            return True
        self._sets.put(
            CopiedSet(
                number=self._number + 1,
                name=self._folder.name,
                lineage=self._lineage,
                time=show_time(SystemClock().now()),
                begun=tuple(sorted(self._begun)),
                files=tuple(files),
            )
        )
        self._number += 1
        self._last = CopiedSet(self._number, "", "", "", tuple(sorted(self._begun)), tuple(files))
        self._pieces = {piece for file in files for piece in file.pieces}
        return True

    def _open(self) -> None:
        """Inspect the destination; later, check that it still has what this process wrote."""
        number = self._sets.newest_number()
        if self._number < 0:
            self._number, self._last = number, self._sets.newest()
            if isinstance(self._last, CopiedSet):
                self._begun |= set(self._last.begun)
                self._pieces = set(_whole_pieces(self._last, self._sets))
        elif number > self._number:
            raise StorageFailed(
                "another process copies this run to the same place: of this one nothing more is "
                "copied"
            )

    def _is_there(self, files: Sequence[CopiedFile]) -> bool:
        last = self._last
        return (
            isinstance(last, CopiedSet)
            and list(last.files) == list(files)
            and set(last.begun) == self._begun
            and all(piece in self._pieces for file in files for piece in file.pieces)
        )

    def _copied(self, path: str, size: int) -> Iterator[CopiedFile]:
        """The file, once its chunks are stored; None if it is gone meanwhile, as a pin may be."""
        with storage_errors(f"reading {self._folder.path / path}"):
            try:
                with opened_regular(self._folder.path / path, follow=False) as stream:
                    yield self._sent(path, stream, size)
            except FileNotFoundError:
                return

    def _sent(self, path: str, stream: BinaryIO, size: int) -> CopiedFile:
        found = os.fstat(stream.fileno())
        seen = _Seen(found.st_size, found.st_mtime_ns, found.st_ino)
        known = self._known.get(path)
        grows = path.endswith(_GROWING)
        if known and known[0] == seen and not grows and self._pieces.issuperset(known[1].pieces):
            return known[1]
        rest = _whole_lines(stream, min(size, seen.size_bytes)) if grows else seen.size_bytes
        pieces: list[str] = []
        total = 0
        stream.seek(0)
        while rest and (data := stream.read(min(rest, PIECE_BYTES))):
            pieces.append(self._sets.put_piece(data, self._pieces))
            rest, total = rest - len(data), total + len(data)
        file = CopiedFile(path, total, tuple(pieces))
        self._known[path] = (seen, file)
        return file


def _sizes(folder: RunFolder) -> Iterator[tuple[str, int]]:
    """Size of every file to copy, by its path in the run folder."""
    for path in sorted(_files(folder)):
        name = path.relative_to(folder.path).as_posix()
        if not _is_safe(name):
            continue
        # A pin may be removed by another process at this moment.
        with contextlib.suppress(FileNotFoundError):
            found = path.lstat()
            if stat.S_ISREG(found.st_mode):
                yield name, found.st_size


def _files(folder: RunFolder) -> Iterator[Path]:
    yield from (folder.contract, folder.plan, folder.record, folder.preflight)
    yield from (folder.signals, folder.windows, folder.events)
    yield from (folder.evaluation, folder.predictions, folder.checksums)
    yield from (folder.path / name for name in ("log.txt", "requirements.txt"))
    yield from (folder.path / "sinks").glob("*.json")
    for part in _FOLDERS:
        yield from (folder.path / part).rglob("*")
    yield folder.checkpoints / LEDGER
    for name in read_pins(folder.checkpoints):
        yield folder.checkpoints / f"pinned-{name}"
    for _, inner in inner_trainings(folder):
        yield from _files(RunFolder(inner))


def _is_safe(name: str) -> bool:
    """Exclude unfinished and hidden files, whose names start with a dot."""
    try:
        return all(check_name(part, "a file") for part in name.split("/"))
    except Mistake:
        return False


def _whole_lines(stream: BinaryIO, size: int) -> int:
    """Bytes up to and including the last newline in the first `size` of them."""
    while size:
        start = max(0, size - _BACKWARD_BYTES)
        stream.seek(start)
        if (at := stream.read(size - start).rfind(b"\n")) >= 0:
            return start + at + 1
        size = start
    return 0


def _whole_pieces(one: CopiedSet, sets: FileSets) -> Iterator[str]:
    """Chunks of a set that are stored in full, which they were before its list."""
    there = sets.pieces()
    for file in one.files:
        for at, piece in enumerate(file.pieces):
            if there.get(piece) == min(PIECE_BYTES, file.size_bytes - at * PIECE_BYTES):
                yield piece
