"""Content-addressed cache of parsed files, shared between processes.

    <folder>/tables/<key>/      rows.arrow · lines.i64 · entry.json (sizes and hashes, written last)
    <folder>/images/<key>/      pixels.u8 · records.arrow · entry.json
    <folder>/texts/<key>/       tokens.u · lengths.i64 · entry.json
    <folder>/downloads/<key>/   data · entry.json
    <folder>/values/<key>/      data (JSON), or soft targets and states (npy) · entry.json
    <folder>/locks/<key>        held while an entry is built
    <folder>/.../.tmp-<key>-*   an unfinished entry

A key is a hash of the content and the reading settings, so entries never become stale. An entry is
built in a temporary folder and renamed, so it is complete or absent, and its hashes are verified
each time it is found.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, final

import numpy as np
import polars as pl

from trainwright.core.files import (
    Json,
    hash_file,
    is_unchanged,
    read_json,
    storage_errors,
    to_json,
    write_json,
    write_text,
)
from trainwright.data.base.inputs import Integers
from trainwright.data.formats.arrow_files import open_arrow
from trainwright.data.formats.file_format import ParseResult

Shelf = Literal["tables", "images", "texts", "downloads", "values"]
Build = Callable[[Path], ParseResult]
"""Writes the rows of a source to the Arrow file it is given, and says what it knows beside them.
It may leave other files beside that one; they are removed."""

Write = Callable[[Path], Json]
"""Writes the files of an entry into the folder it is given, and says what is known beside them."""

_ENTRY = "entry.json"
_ROWS = "rows.arrow"
_LINES = "lines.i64"
_DATA = "data"
PIXELS, RECORDS = "pixels.u8", "records.arrow"
"""The files of an entry of images."""

TOKENS, LENGTHS = "tokens.u", "lengths.i64"
"""The files of an entry of texts."""

SOFT_TARGETS = "soft_targets.npy"
"""The file of what a teacher predicts."""

TEACHER_STATES = "teacher_states.npy"
"""The file of its hidden states."""

SOFT_TOKENS = ("positions.npy", "soft_tokens.npy", "soft_logs.npy")
"""Those of what a decoder predicts of the tokens of a text."""

_PRIVATE = 0o700
_SHELVES: tuple[Shelf, ...] = ("tables", "images", "texts", "downloads", "values")
_KEPT = frozenset(
    {_ROWS, _LINES, _DATA, PIXELS, RECORDS, TOKENS, LENGTHS}
    | {SOFT_TARGETS, TEACHER_STATES, *SOFT_TOKENS}
)


@final
@dataclass(frozen=True, slots=True)
class SourceRows:
    """The rows of a source, with what `ParseResult` knows beside them."""

    frame: pl.DataFrame
    lines: Integers
    skipped: tuple[int, ...]


@final
@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One entry as `trainwright data cache` lists it; `name` is what was read."""

    key: str
    shelf: Shelf
    name: str
    size_bytes: int
    written: float


class Tables(Protocol):
    """Cache of parsed files."""

    def table(self, key: str, name: str, build: Build) -> SourceRows:
        """The rows that `build` makes; it may not be called if rows of this key are there."""
        ...

    def entry(self, shelf: Shelf, key: str, name: str, write: Write) -> tuple[Path, Json]:
        """A folder with the files that `write` makes, and what it returns; it may not be called if
        an entry of this key is there."""
        ...


def cache_file(tables: Tables, key: str, name: str, fetch: Callable[[Path], None]) -> Path:
    """The file that `fetch` writes, as an entry of this key."""

    def write(folder: Path) -> Json:
        fetch(folder / _DATA)
        return {}

    return tables.entry("downloads", key, name, write)[0] / _DATA


def cache_value(tables: Tables, key: str, name: str, compute: Callable[[], Json]) -> Json:
    """What `compute` gives, as an entry of this key."""

    def write(folder: Path) -> Json:
        write_json(folder / _DATA, compute())
        return {}

    return read_json(tables.entry("values", key, name, write)[0] / _DATA)


@final
class Uncached:
    """No cache: entries live as long as this object."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="trainwright-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def table(self, key: str, name: str, build: Build) -> SourceRows:  # noqa: ARG002
        """The rows, in memory."""
        with tempfile.TemporaryDirectory(dir=self._folder) as folder, storage_errors("reading"):
            target = Path(folder) / _ROWS
            parsed = build(target)
            return SourceRows(pl.read_ipc(target), parsed.lines, parsed.skipped)

    def entry(self, shelf: Shelf, key: str, name: str, write: Write) -> tuple[Path, Json]:  # noqa: ARG002
        """The folder, until this object is gone."""
        target = Path(tempfile.mkdtemp(dir=self._folder))
        return target, write(target)


@final
class Cache:
    """Entries below one folder, safe for concurrent processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def table(self, key: str, name: str, build: Build) -> SourceRows:
        """The rows of an entry, mapped into memory; built first if it is not there."""
        found, extra = self.entry("tables", key, name, lambda folder: _write_table(folder, build))
        lines = np.fromfile(found / _LINES, dtype="<i8").astype(np.int64, copy=False)
        return SourceRows(open_arrow(found / _ROWS), lines, tuple(extra["skipped"]))

    def entry(self, shelf: Shelf, key: str, name: str, write: Write) -> tuple[Path, Json]:
        """The files of an entry; built first if it is not there."""
        found = self._find(shelf, key, name, write)
        return found, read_json(found / _ENTRY)["extra"]

    def entries(self) -> list[CacheEntry]:
        """All entries, oldest first."""
        found: list[CacheEntry] = []
        for shelf in _SHELVES:
            for entry in sorted((self.folder / shelf).glob(f"[0-9a-f]*/{_ENTRY}")):
                with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                    size = sum(child.stat().st_size for child in entry.parent.iterdir())
                    name = str(read_json(entry)["name"])
                    when = entry.stat().st_mtime
                    found.append(CacheEntry(entry.parent.name, shelf, name, size, when))
        return sorted(found, key=lambda one: one.written)

    def clear(self, keys: frozenset[str]) -> list[CacheEntry]:
        """Remove the entries whose keys begin with one of `keys`, and unfinished ones. Open
        mappings of removed files stay valid."""
        gone = [one for one in self.entries() if one.key.startswith(tuple(keys))]
        with storage_errors(f"clearing {self.folder}"):
            for one in gone:
                with self._lock(one.key):
                    _remove(self.folder / one.shelf / one.key)
            for shelf in _SHELVES:
                for left in (self.folder / shelf).glob(".tmp-*"):
                    with self._lock(left.name.split("-")[1]):
                        _remove(left)
        return gone

    def _find(self, shelf: Shelf, key: str, name: str, write: Write) -> Path:
        place = self.folder / shelf / key
        if _is_whole(place):
            return place
        with storage_errors(f"the cache {self.folder}"):
            place.parent.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        with self._lock(key):
            if _is_whole(place):
                return place
            with storage_errors(f"keeping {name} in {self.folder}"):
                for left in (place, *place.parent.glob(f".tmp-{key}-*")):
                    _remove(left)
                self._build(place, name, write)
        # What was hashed a moment ago is not hashed again.
        return place

    def _build(self, place: Path, name: str, write: Write) -> None:
        scratch = Path(tempfile.mkdtemp(prefix=f".tmp-{place.name}-", dir=place.parent))
        try:
            extra = write(scratch)
            kept = {
                child.name: {"size_bytes": child.stat().st_size, "sha256": hash_file(child)}
                for child in sorted(scratch.iterdir())
                if child.name in _KEPT
            }
            assert kept, "an entry without a file is never whole"
            for child in scratch.iterdir():
                if child.name not in kept:
                    child.unlink()
            entry = {"name": name, "files": kept, "extra": extra}
            write_text(scratch / _ENTRY, to_json(entry))
            scratch.rename(place)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise

    @contextlib.contextmanager
    def _lock(self, key: str) -> Iterator[None]:
        """Lock an entry for building. The lock is released when its holder dies."""
        folder = self.folder / "locks"
        with storage_errors(f"locking {folder}"):
            folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
            descriptor = os.open(folder / key, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def open_cache(written: str, folder: Path) -> Tables:
    """The cache that a contract in `folder` asks for: `off`, a folder, or `user`.

    Where the user's is a place that cannot be written to, nothing is kept.
    """
    if written == "off":
        return Uncached()
    if written != "user":
        return Cache(folder / written)
    place = cache_folder()
    there = next(parent for parent in (place, *place.parents) if parent.exists())
    return Cache(place) if os.access(there, os.W_OK | os.X_OK) else Uncached()


def scratch_folder(written: str, folder: Path) -> Path:
    """Folder for temporary files of the process: on the disk of the cache, if the contract has
    one."""
    tables = open_cache(written, folder)
    return tables.folder / "scratch" if isinstance(tables, Cache) else Path(tempfile.gettempdir())


def cache_folder() -> Path:
    """$TRAINWRIGHT_CACHE, else `trainwright` below the user's cache folder (XDG)."""
    if named := os.environ.get("TRAINWRIGHT_CACHE", ""):
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "trainwright"


def _write_table(folder: Path, build: Build) -> Json:
    parsed = build(folder / _ROWS)
    parsed.lines.astype("<i8").tofile(folder / _LINES)
    return {"skipped": list(parsed.skipped)}


def _is_whole(place: Path) -> bool:
    """Do all files of an entry match their hashes?"""
    try:
        files = read_json(place / _ENTRY)["files"]
        return bool(files) and all(
            is_unchanged(place / name, file["size_bytes"], file["sha256"])
            for name, file in files.items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _remove(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if path.is_symlink() or path.is_file():
            path.unlink()
        else:
            shutil.rmtree(path)
