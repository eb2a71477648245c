"""Copies of a run's files under a prefix of an object store, committed as whole sets.

`files/<sha256>` is a chunk of at most 4 MiB, named by its content, so that unchanged chunks are not
uploaded again; `files/set-<number>.json`, written last, lists the chunks of each file.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self, final

from trainwright.checkpoint.storages.object_files import ObjectFiles, open_system
from trainwright.checkpoint.strict_json import Damaged, read_count, read_sealed, write_sealed
from trainwright.core.errors import Mistake, StorageFailed
from trainwright.core.faultpoints import reached
from trainwright.core.files import Json, check_name, hash_bytes

PIECE_BYTES = 4 * 1024 * 1024
_FORMAT = 1
_FOLDER = "files"
_SET = re.compile(r"set-([0-9]{12})\.json")
_PIECE = re.compile(r"[0-9a-f]{64}")
_MOST_SET_BYTES = 64 * 1024 * 1024
_MOST_FILES = 10_000


@final
@dataclass(frozen=True, slots=True)
class CopiedFile:
    """File of the run: its path in the run folder, and the hashes of its chunks in order."""

    path: str
    size_bytes: int
    pieces: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class CopiedSet:
    """Consistent set of all files of a run.

    `number` counts the sets of a run, `lineage` is that of the run and `time` is when the copy was
    made. `begun` names the trainings whose checkpoints are copied too: a fold's folder, or `.` for
    the run's own.
    """

    number: int
    name: str
    lineage: str
    time: str
    begun: tuple[str, ...]
    files: tuple[CopiedFile, ...]

    def to_bytes(self) -> bytes:
        """Bytes of the object: the content and its hash."""
        content = {
            "number": self.number,
            "name": self.name,
            "lineage": self.lineage,
            "time": self.time,
            "begun": list(self.begun),
            "files": [
                {"path": file.path, "size_bytes": file.size_bytes, "pieces": list(file.pieces)}
                for file in self.files
            ],
        }
        return write_sealed(content, _FORMAT)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Inverse of `to_bytes`.

        Raises:
            Damaged: any bit has changed, or the format is another one.
        """
        content = read_sealed(data, _FORMAT)
        try:
            if len(content["files"]) > _MOST_FILES:
                raise Damaged(f"{len(content['files']):,} files are more than a run has")
            return cls(
                number=read_count(content["number"]),
                name=check_name(content["name"], "the run's name"),
                lineage=str(content["lineage"]),
                time=str(content["time"]),
                begun=tuple(str(part) for part in content["begun"]),
                files=tuple(_file(value) for value in content["files"]),
            )
        except (KeyError, TypeError, AttributeError, ValueError, Mistake) as error:
            raise Damaged(f"not a list of copied files: {error}") from None


@final
@dataclass(frozen=True, slots=True)
class NoSet:
    """No files of a run are stored there."""


@final
class FileSets:
    """Sets under one prefix. A set exists once its list does; the previous set is then removed."""

    def __init__(self, objects: ObjectFiles) -> None:
        self._objects = objects

    def __str__(self) -> str:
        return str(self._objects)

    def newest(self) -> CopiedSet | NoSet:
        """Newest set with a complete list.

        Raises:
            StorageFailed: not readable, or there are lists and each of them is damaged.
        """
        with self._objects.errors("listing"):
            names = sorted(filter(_SET.fullmatch, self._objects.listing(_FOLDER)), reverse=True)
            damage: list[str] = []
            for name in names:
                try:
                    path = self._objects.path(_FOLDER, name)
                    return CopiedSet.from_bytes(self._objects.read(path, _MOST_SET_BYTES))
                except Damaged as error:
                    damage.append(f"\n    {_FOLDER}/{name}: {error}")
        if damage:
            raise StorageFailed(f"the copied files in {self} are damaged:{''.join(damage)}")
        return NoSet()

    def newest_number(self) -> int:
        """Number of the newest list, damaged or not; 0 if there is none."""
        with self._objects.errors("listing"):
            found = map(_SET.fullmatch, self._objects.listing(_FOLDER))
            return max((int(match[1]) for match in found if match), default=0)

    def pieces(self) -> Mapping[str, int]:
        """Sizes of the stored chunks by hash."""
        with self._objects.errors("listing"):
            there = self._objects.listing(_FOLDER)
        return {name: size for name, size in there.items() if _PIECE.fullmatch(name)}

    def put_piece(self, data: bytes, there: set[str]) -> str:
        """Write a chunk, unless it is known to be `there`; its hash."""
        sha256 = hash_bytes(data)
        if sha256 in there:
            return sha256
        with self._objects.errors("copying files"):
            self._objects.put(self._objects.path(_FOLDER, sha256), data)
        there.add(sha256)
        reached("copy.file")
        return sha256

    def put(self, one: CopiedSet) -> None:
        """Write the list of a set whose chunks are stored, then remove older lists and the chunks
        it does not use; objects with other names stay."""
        reached("copy.set")
        with self._objects.errors("copying files"):
            name = f"set-{one.number:012d}.json"
            self._objects.put(self._objects.path(_FOLDER, name), one.to_bytes())
            needed = {piece for file in one.files for piece in file.pieces} | {name}
            # What cannot be removed now is removed after the next set.
            with contextlib.suppress(Exception):
                others = self._objects.listing(_FOLDER).keys() - needed
                for pattern in (_SET, _PIECE):
                    for other in sorted(filter(pattern.fullmatch, others)):
                        self._objects.remove(self._objects.path(_FOLDER, other))

    def read(self, file: CopiedFile) -> Iterator[bytes]:
        """Chunks of a file, each verified.

        Raises:
            Damaged: one is missing or corrupt. StorageFailed: not readable.
        """
        size = 0
        for piece in file.pieces:
            with self._objects.errors(f"reading {file.path}"):
                data = self._objects.read(self._objects.path(_FOLDER, piece), PIECE_BYTES)
            if hash_bytes(data) != piece:
                raise Damaged(f"{_FOLDER}/{piece}: not the bytes that were written")
            size += len(data)
            if size > file.size_bytes:
                break
            yield data
        if size != file.size_bytes:
            raise Damaged(f"{size} bytes instead of {file.size_bytes}")


def holds_copies(path: Path) -> bool:
    """Is a folder of this machine, for example a mounted one, the copy location of a run?"""
    patterns = (f"{_FOLDER}/set-*.json", "step-*-*/manifest.json")
    return path.is_dir() and any(any(path.glob(pattern)) for pattern in patterns)


def open_sets(remote: str, name: str) -> FileSets:
    """Sets of a run under the address in its contract.

    Raises:
        Mistake: unknown URL scheme. MissingExtra: the package for it is not installed.
    """
    return FileSets(ObjectFiles(*open_system(f"{remote.rstrip('/')}/{name}")))


def _file(value: Json) -> CopiedFile:
    path, pieces = value["path"], tuple(value["pieces"])
    if not isinstance(path, str) or not all(
        check_name(part, "a file of a run") for part in path.split("/")
    ):
        raise ValueError(f"{path!r:.80} is no path in a run folder")
    if not all(isinstance(piece, str) and _PIECE.fullmatch(piece) for piece in pieces):
        raise ValueError(f"{path}: a piece has no hash")
    return CopiedFile(path, read_count(value["size_bytes"]), pieces)
