"""Checkpoints in an object store: S3, GCS, Azure and whatever else fsspec reaches."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, final

from trainwright.checkpoint.catalog import (
    Candidate,
    Catalog,
    NotInLedger,
    entry_of,
    in_order,
    new_lineage,
)
from trainwright.checkpoint.ledger import Kind, Line
from trainwright.checkpoint.manifest import MANIFEST, Bytes, read_manifest
from trainwright.checkpoint.names import POINTERS
from trainwright.checkpoint.retention import with_abandoned
from trainwright.checkpoint.storage import Block, FileSet, Leaving
from trainwright.checkpoint.strict_json import Damaged
from trainwright.core.errors import MissingExtra, Mistake, Problem, StorageFailed
from trainwright.core.files import to_json
from trainwright.core.hashing import hash_bytes
from trainwright.core.paths import check_name
from trainwright.core.redaction import redact

_SCHEMES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "file", "memory")
_ABANDONED, _QUARANTINED = "abandoned", "quarantined"
_FOLDER = re.compile(r"(step-[0-9]{10,18})-([0-9]{12})")


@final
class ObjectStorage:
    """A `CheckpointStorage` below one prefix of an fsspec file system.

    Nothing here can be renamed, so the manifest, written last, is the commit. Each commit has a
    prefix of its own, `<name>-<sequence>/`: no object of an older one is ever written over, and a
    prefix without a manifest counts as nothing. What happens to a checkpoint later is an empty
    object beside its files. Listings are asked for anew each time and by prefix only, because an
    object store has no folders. Credentials come from the environment, as the libraries read them.

    Args:
        files: an fsspec file system that caches no listings; see `open_objects`.
        root: the prefix, as the file system spells it.
    """

    def __init__(self, files: Any, root: str) -> None:
        self._files = files
        self._root = root.rstrip("/")

    def __str__(self) -> str:
        return redact(self._files.unstrip_protocol(self._root))

    def open(self) -> Catalog:
        """What the manifests say, after what was interrupted is removed."""
        with self._errors("listing"):
            there = self._listing()
            live: dict[str, Candidate] = {}
            for folder in sorted(there, key=lambda name: name.rpartition("-")[2]):
                if _QUARANTINED in there[folder]:
                    continue
                if MANIFEST not in there[folder]:
                    self._remove(folder, there[folder])
                    continue
                candidate = self._candidate(folder, there[folder])
                older = live.get(candidate.name)
                if older is not None:
                    before = _folder_of(older)
                    self._remove(before, there[before])
                live[candidate.name] = candidate
        return _catalog(list(live.values()), has_history=bool(there))

    def commit(self, files: FileSet) -> Line:
        """Upload a checkpoint, the manifest when all others are there in their whole length."""
        check_name(files.name, "a checkpoint")
        folder = f"{files.name}-{files.sequence:012d}"
        manifest = b""
        with self._errors(f"saving {files.name}"):
            older = [name for name in self._listing() if name.startswith(f"{files.name}-")]
            try:
                for name, blocks in files.files:
                    check_name(name, "a file of a checkpoint")
                    if name == MANIFEST:
                        manifest = b"".join(blocks)
                    else:
                        self._upload(self._path(folder, name), blocks)
                assert manifest, "the manifest comes last"
                self._put(self._path(folder, MANIFEST), manifest)
            except BaseException:
                with contextlib.suppress(Exception):
                    self._remove(folder, self._listing().get(folder, set()))
                raise
            self._after_commit(files, [name for name in older if name != folder])
        return files.line(hash_bytes(manifest))

    def read(self, name: str, file: str, limit_bytes: int) -> Bytes:
        """An object of the newest commit of a checkpoint."""
        check_name(file, "a file of a checkpoint")
        with self._errors(f"reading {name}/{file}"):
            mine = sorted(
                folder
                for folder, there in self._listing().items()
                if folder.startswith(f"{name}-") and MANIFEST in there and _QUARANTINED not in there
            )
            if not mine:
                raise Damaged(f"{file}: there is no such checkpoint")
            return self._read(mine[-1], file, limit_bytes)

    def retain(self, pointers: Mapping[str, str], leaving: Leaving) -> Iterator[Line]:
        """Move the pointers, then remove what leaves: its manifest, and it counts no more."""
        with self._errors("tidying"):
            self._put(self._path(POINTERS), to_json(dict(pointers)).encode())
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
            with self._errors(f"marking {folder}"):
                self._put(self._path(folder, _QUARANTINED), b"")
        except StorageFailed:
            return ""
        return folder

    def _path(self, *parts: str) -> str:
        return "/".join((self._root, *parts))

    def _listing(self) -> dict[str, set[str]]:
        """The names of the objects by commit; an object store needs no folder for them to be in."""
        self._files.invalidate_cache()
        try:
            paths = self._files.find(self._root)
        except FileNotFoundError:
            return {}
        there: dict[str, set[str]] = {}
        for path in paths:
            folder, _, name = str(path).rpartition("/")
            if found := _FOLDER.fullmatch(folder.rpartition("/")[2]):
                there.setdefault(found.group(), set()).add(name)
        return there

    def _read(self, folder: str, file: str, limit_bytes: int) -> Bytes:
        path = self._path(folder, file)
        try:
            size = int(self._files.info(path)["size"])
            if size > limit_bytes:
                raise Damaged(f"{file}: {size} bytes are more than {limit_bytes}")
            return bytes(self._files.cat_file(path))
        except FileNotFoundError:
            raise Damaged(f"{file}: there is no such object") from None

    def _candidate(self, folder: str, names: set[str]) -> Candidate:
        name, _, number = folder.rpartition("-")
        try:
            manifest, sha256 = read_manifest(partial(self._read, folder))
        except Damaged:
            return Candidate(int(number), name, NotInLedger())
        kind: Kind = "abandoned" if _ABANDONED in names else "committed"
        line = Line(kind, manifest.lineage, int(number), name, sha256, manifest.score)
        return Candidate(int(number), name, line)

    def _upload(self, path: str, blocks: Iterable[Block]) -> None:
        """Write an object; none is left of one that is cut short.

        As a context, a file of fsspec would complete the upload of what was written so far.
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
        self._check_size(path, size)

    def _put(self, path: str, data: bytes) -> None:
        self._files.pipe_file(path, data)
        self._check_size(path, len(data))

    def _check_size(self, path: str, size: int) -> None:
        self._files.invalidate_cache()
        found = int(self._files.info(path)["size"])
        if found != size:
            raise OSError(f"{path} has {found} bytes instead of {size}")

    def _remove(self, folder: str, names: Iterable[str]) -> None:
        """The manifest first: what is left of it after a crash is no checkpoint."""
        for name in sorted(names, key=lambda name: name != MANIFEST):
            with contextlib.suppress(FileNotFoundError):
                self._files.rm_file(self._path(folder, name))

    def _after_commit(self, files: FileSet, older: list[str]) -> None:
        """What a later `open` would find out by itself if it cannot be done now."""
        with contextlib.suppress(Exception):
            for line in files.beside:
                folder = f"{line.name}-{line.sequence:012d}"
                self._put(self._path(folder, _ABANDONED), b"")
            there = self._listing()
            for folder in older:
                self._remove(folder, there.get(folder, set()))

    @contextlib.contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        """The libraries behind fsspec raise errors of many kinds; all of them may pass by."""
        try:
            yield
        except (StorageFailed, Damaged, Mistake, AssertionError):
            raise
        except Exception as error:
            text = redact(str(error)) or type(error).__name__
            raise StorageFailed(f"{doing} in {self}: {text}") from error


def open_objects(url: str) -> ObjectStorage:
    """The storage at a URL such as `s3://bucket/folder`.

    Raises:
        Mistake: nothing is known of such URLs. MissingExtra: the package for them is absent.
    """
    from fsspec.core import url_to_fs

    scheme = url.partition("://")[0]
    options: dict[str, Any] = {"use_listings_cache": False, "skip_instance_cache": True}
    if scheme not in _SCHEMES:
        raise Mistake(
            Problem(
                f"{redact(scheme)[:40]}:// leads to no storage that is known here",
                path="training.checkpointing.remote",
                expected=f"one of: {', '.join(f'{known}://' for known in _SCHEMES)}",
                fix="write for example s3://bucket/folder or file:///folder",
            )
        )
    if scheme == "file":
        # A folder that is mounted here: there a name needs the folder that it stands in.
        options["auto_mkdir"] = True
    try:
        files, root = url_to_fs(url, **options)
    except ImportError as error:
        raise MissingExtra(
            Problem(
                f"{scheme}:// needs a package that is not installed",
                path="training.checkpointing.remote",
                found=redact(str(error)),
                fix='pip install "trainwright[s3]" for s3, gcsfs for gs, adlfs for az',
            )
        ) from None
    return ObjectStorage(files, root)


def _folder_of(candidate: Candidate) -> str:
    return f"{candidate.name}-{candidate.sequence:012d}"


def _catalog(live: list[Candidate], *, has_history: bool) -> Catalog:
    lines = [one.line for one in live if isinstance(one.line, Line)]
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
