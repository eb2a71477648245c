"""Checkpoint storage in an object store: S3, GCS, Azure and other fsspec file systems."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, final

from trainwright.checkpoint.files.file_entry import POINTERS, Bytes, FileEntry
from trainwright.checkpoint.files.manifest import MANIFEST, read_manifest
from trainwright.checkpoint.keeping.retention import with_abandoned
from trainwright.checkpoint.storages.catalog import (
    Candidate,
    Catalog,
    NotInLedger,
    entry_of,
    in_order,
    new_lineage,
)
from trainwright.checkpoint.storages.ledger import Kind, LedgerLine
from trainwright.checkpoint.storages.object_files import ObjectFiles, open_system
from trainwright.checkpoint.storages.storage import Block, FileSet, Leaving
from trainwright.checkpoint.strict_json import Damaged
from trainwright.core.errors import StorageFailed
from trainwright.core.files import check_name, hash_bytes, to_json

SHARED = "base"
_ABANDONED, _QUARANTINED = "abandoned", "quarantined"
_FOLDER = re.compile(r"(step-[0-9]{10,18})-([0-9]{12})")


@final
class ObjectStorage:
    """A `CheckpointStorage` under one prefix of an fsspec file system.

    Objects cannot be renamed, so the manifest, written last, is the commit. Each commit has a
    prefix of its own, `<name>-<sequence>/`: no object of an older one is ever overwritten, and a
    prefix without a manifest is ignored. Later events of a checkpoint are empty marker objects next
    to its files. Listings are requested anew each time and by prefix only, because an object store
    has no folders. Credentials come from the environment, as the libraries read them.

    Args:
        files: an fsspec file system that caches no listings; see `open_objects`.
        root: the prefix, in the notation of the file system.
    """

    def __init__(self, files: Any, root: str) -> None:
        self._files = files
        self._root = root.rstrip("/")
        self._objects = ObjectFiles(files, root)

    def __str__(self) -> str:
        return str(self._objects)

    def open(self) -> Catalog:
        """Catalog from the manifests, after leftovers of interrupted operations are removed."""
        with self._objects.errors("listing"):
            there = self._listing()
            live, dead = self._sorted(there)
            for folder in dead:
                self._remove(folder, there[folder])
            for folder in filter(_FOLDER.fullmatch, self._objects.folders()):
                self._objects.remove_empty(folder)
        return _catalog(live, has_history=bool(there))

    def look(self) -> Catalog:
        """The same catalog without removing anything: another process may be writing there."""
        with self._objects.errors("listing"):
            there = self._listing()
            live, _ = self._sorted(there)
        return _catalog(live, has_history=bool(there))

    def commit(self, files: FileSet) -> LedgerLine:
        """Upload a checkpoint, the manifest once all others are stored in full."""
        check_name(files.name, "a checkpoint")
        folder = f"{files.name}-{files.sequence:012d}"
        manifest = b""
        with self._objects.errors(f"saving {files.name}"):
            older = [name for name in self._listing() if name.startswith(f"{files.name}-")]
            try:
                for name, blocks in files.files:
                    check_name(name, "a file of a checkpoint")
                    if name == MANIFEST:
                        manifest = b"".join(blocks)
                    else:
                        self._upload(self._objects.path(folder, name), blocks)
                assert manifest, "the manifest comes last"
                self._objects.put(self._objects.path(folder, MANIFEST), manifest)
            except BaseException:
                with contextlib.suppress(Exception):
                    self._remove(folder, self._listing().get(folder, set()))
                raise
            self._after_commit(files, [name for name in older if name != folder])
        return files.line(hash_bytes(manifest))

    def read(self, name: str, file: str, limit_bytes: int) -> Bytes:
        """Read an object of the newest commit of a checkpoint."""
        check_name(file, "a file of a checkpoint")
        with self._objects.errors(f"reading {name}/{file}"):
            mine = sorted(
                folder
                for folder, there in self._listing().items()
                if folder.startswith(f"{name}-") and MANIFEST in there and _QUARANTINED not in there
            )
            if not mine:
                raise Damaged(f"{file}: there is no such checkpoint")
            return self._read(mine[-1], file, limit_bytes)

    def holds(self, file: FileEntry) -> bool:
        """Is an object of this name and size stored?"""
        with self._objects.errors("listing"):
            return self._objects.listing(SHARED).get(file.name) == file.size_bytes

    def keep(self, file: FileEntry, content: Iterable[Block]) -> None:
        """Upload a file that checkpoints share."""
        check_name(file.name, "a shared file")
        with self._objects.errors(f"saving {file.name}"):
            self._upload(self._objects.path(SHARED, file.name), content)

    def read_shared(self, file: str, limit_bytes: int) -> Bytes:
        """Read a file that checkpoints share."""
        check_name(file, "a shared file")
        with self._objects.errors(f"reading {file}"):
            return self._read(SHARED, file, limit_bytes)

    def retain(self, pointers: Mapping[str, str], leaving: Leaving) -> Iterator[LedgerLine]:
        """Move the pointers, then remove what leaves, starting with its manifest, without which it
        no longer counts."""
        with self._objects.errors("tidying"):
            self._objects.put(self._objects.path(POINTERS), to_json(dict(pointers)).encode())
            going = leaving(())
            there = self._listing() if going else {}
            for line in going:
                folder = f"{line.name}-{line.sequence:012d}"
                self._remove(folder, there.get(folder, set()))
                yield line

    def set_aside(self, candidate: Candidate) -> str:
        """Mark it; its objects stay."""
        folder = _folder_of(candidate)
        try:
            with self._objects.errors(f"marking {folder}"):
                self._objects.put(self._objects.path(folder, _QUARANTINED), b"")
        except StorageFailed:
            return ""
        return folder

    def _listing(self) -> dict[str, set[str]]:
        """Object names by commit; needs no folder objects."""
        there: dict[str, set[str]] = {}
        for path in self._objects.listing():
            folder, _, name = path.rpartition("/")
            if found := _FOLDER.fullmatch(folder.rpartition("/")[2]):
                there.setdefault(found.group(), set()).add(name)
        return there

    def _read(self, folder: str, file: str, limit_bytes: int) -> Bytes:
        return self._objects.read(self._objects.path(folder, file), limit_bytes)

    def _sorted(self, there: Mapping[str, set[str]]) -> tuple[list[Candidate], list[str]]:
        """Newest commit of each name, and the prefixes to ignore."""
        live: dict[str, Candidate] = {}
        dead: list[str] = []
        for folder in sorted(there, key=lambda name: name.rpartition("-")[2]):
            if _QUARANTINED in there[folder]:
                continue
            if MANIFEST not in there[folder]:
                dead.append(folder)
                continue
            candidate = self._candidate(folder, there[folder])
            if candidate.name in live:
                dead.append(_folder_of(live[candidate.name]))
            live[candidate.name] = candidate
        return list(live.values()), dead

    def _candidate(self, folder: str, names: set[str]) -> Candidate:
        name, _, number = folder.rpartition("-")
        try:
            manifest, sha256 = read_manifest(partial(self._read, folder))
        except Damaged:
            return Candidate(int(number), name, NotInLedger())
        kind: Kind = "abandoned" if _ABANDONED in names else "committed"
        line = LedgerLine(kind, manifest.lineage, int(number), name, sha256, manifest.score)
        return Candidate(int(number), name, line)

    def _upload(self, path: str, blocks: Iterable[Block]) -> None:
        """Write an object; an interrupted upload leaves none.

        Used as a context manager, an fsspec file would complete the upload of what was written so
        far.
        """
        stream = self._files.open(path, "wb")
        size = 0
        try:
            for block in blocks:
                stream.write(block)
                size += len(block)
        except BaseException:
            with contextlib.suppress(Exception):
                stream.discard()
            stream.closed = True
            raise
        stream.close()
        self._objects.check_size(path, size)

    def _remove(self, folder: str, names: Iterable[str]) -> None:
        """Remove the manifest first: what is left after a crash is not a checkpoint."""
        for name in sorted(names, key=lambda name: name != MANIFEST):
            self._objects.remove(self._objects.path(folder, name))
        self._objects.remove_empty(folder)

    def _after_commit(self, files: FileSet, older: list[str]) -> None:
        """Clean up; what fails now is found by a later `open`."""
        with contextlib.suppress(Exception):
            for line in files.beside:
                folder = f"{line.name}-{line.sequence:012d}"
                self._objects.put(self._objects.path(folder, _ABANDONED), b"")
            there = self._listing()
            for folder in older:
                self._remove(folder, there.get(folder, set()))


def open_objects(url: str) -> ObjectStorage:
    """Storage at a URL such as `s3://bucket/folder`.

    Raises:
        Mistake: unknown URL scheme. MissingExtra: the package for it is not installed.
    """
    return ObjectStorage(*open_system(url))


def _folder_of(candidate: Candidate) -> str:
    return f"{candidate.name}-{candidate.sequence:012d}"


def _catalog(live: list[Candidate], *, has_history: bool) -> Catalog:
    lines = [one.line for one in live if isinstance(one.line, LedgerLine)]
    newest_line = max(lines, key=lambda line: line.sequence, default=None)
    lineage = newest_line.lineage if newest_line is not None else new_lineage()
    entries = with_abandoned([entry_of(line) for line in lines if line.lineage == lineage])
    left = {name for name, entry in entries.items() if entry.abandoned}
    candidates = in_order(live, left)
    return Catalog(
        lineage=lineage,
        entries=entries,
        candidates=candidates,
        sequence=max((one.sequence for one in live), default=0),
        newest=candidates[0].name if candidates else "",
        damaged=(),
        has_history=has_history,
        commits=tuple(sorted(entries.values(), key=lambda entry: entry.sequence)),
    )
