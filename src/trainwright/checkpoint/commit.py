"""Writes a checkpoint so that it is whole or absent, whatever happens and whenever."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainwright.checkpoint.ledger import Ledger, Line
from trainwright.checkpoint.manifest import (
    MANIFEST,
    VALUES,
    FileEntry,
    Manifest,
    tensor_file_of,
)
from trainwright.checkpoint.score import NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.strict_json import write_canonical
from trainwright.checkpoint.tensor_file import blocks, describe
from trainwright.core.errors import StorageFailed
from trainwright.core.faultpoints import reached
from trainwright.core.files import Json, sync_folder
from trainwright.core.hashing import hash_bytes
from trainwright.core.paths import check_name
from trainwright.core.units import show_bytes

TEMPORARY = ".tmp-"
REPLACED = "replaced-"
_ROOM = 1.2
_CHUNK_BYTES = 1024 * 1024
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Draft:
    """A checkpoint that is to be written."""

    name: str
    lineage: str
    sequence: int
    step: int
    parent: str
    score: float | NotScored
    parts: Mapping[str, Snapshot]
    inventory: Json
    beside: tuple[Line, ...] = ()
    """Lines of the ledger that become true together with this checkpoint."""


def commit(folder: Path, ledger: Ledger, draft: Draft, reserve_bytes: int) -> tuple[Line, int]:
    """Write a checkpoint and its line in the ledger; returns the line and the bytes written.

    A checkpoint of the same name is replaced; it comes back if this one fails.

    Raises:
        StorageFailed: the folder is as it was.
    """
    for part in draft.parts:
        check_name(part, "a part of a checkpoint")
    values = write_canonical({part: shot.packed_values for part, shot in draft.parts.items()})
    size = len(values) + sum(shot.size_bytes for shot in draft.parts.values())
    temporary = folder / f"{TEMPORARY}{uuid.uuid4().hex}"
    final, replaced = folder / draft.name, folder / f"{REPLACED}{draft.name}"
    placed = committed = False
    try:
        _check_room(folder, size, reserve_bytes)
        manifest = _write_files(temporary, draft, values)
        reached("ckpt.pre_rename")
        if final.exists():
            final.rename(replaced)
        temporary.rename(final)
        placed = True
        sync_folder(folder)
        reached("ckpt.post_rename")
        line = Line(
            "committed",
            draft.lineage,
            draft.sequence,
            draft.name,
            hash_bytes(manifest),
            draft.score,
        )
        ledger.append([line, *draft.beside])
        committed = True
    except OSError as error:
        raise StorageFailed(f"saving {final}: {error.strerror or error}") from error
    finally:
        if not committed:
            _undo(temporary, final, replaced, placed=placed)
    shutil.rmtree(replaced, ignore_errors=True)
    return line, size + len(manifest)


def discard(folder: Path, name: str) -> None:
    """Remove a checkpoint's folder; one that is cut short is finished by `tidy`.

    Raises:
        OSError: it is still there.
    """
    aside = folder / f"{TEMPORARY}{uuid.uuid4().hex}"
    (folder / name).rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def tidy(folder: Path) -> None:
    """Remove what an interrupted save left, and put back what it had moved aside.

    Raises:
        OSError: the folder cannot be changed.
    """
    for path in folder.glob(f"{TEMPORARY}*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for path in folder.glob(f"{REPLACED}step-*"):
        final = folder / path.name.removeprefix(REPLACED)
        if final.exists():
            shutil.rmtree(path)
        else:
            path.rename(final)


def _check_room(folder: Path, size: int, reserve_bytes: int) -> None:
    free = shutil.disk_usage(folder).free
    needed = int(_ROOM * size) + reserve_bytes
    if free < needed:
        raise StorageFailed(
            f"saving into {folder}: {show_bytes(free)} are free and {show_bytes(needed)} are needed"
        )


def _write_files(temporary: Path, draft: Draft, values: bytes) -> bytes:
    """Write every file and the manifest last; returns the manifest's bytes."""
    temporary.mkdir(mode=0o700)
    reached("ckpt.open")
    layouts = {part: describe(snapshot.tensors) for part, snapshot in draft.parts.items()}
    with contextlib.ExitStack() as open_files:
        files = [_write(temporary / VALUES, [values], open_files)]
        for part, snapshot in draft.parts.items():
            if snapshot.tensors:
                path = temporary / tensor_file_of(part)
                files.append(_write(path, blocks(snapshot.tensors), open_files))
    manifest = Manifest(
        lineage=draft.lineage,
        sequence=draft.sequence,
        step=draft.step,
        parent=draft.parent,
        score=draft.score,
        layouts=layouts,
        inventory=draft.inventory,
        files=tuple(files),
    ).to_bytes()
    with contextlib.ExitStack() as open_files:
        _write(temporary / MANIFEST, [manifest], open_files)
    reached("ckpt.manifest")
    sync_folder(temporary)
    return manifest


def _write(
    path: Path, data: Iterable[bytes | memoryview], open_files: contextlib.ExitStack
) -> FileEntry:
    """Write and hash a new file; it is synced and closed when `open_files` ends."""
    descriptor = os.open(path, _NEW, 0o600)
    open_files.callback(os.close, descriptor)
    # Synced together at the end: after the first, the others cost little.
    open_files.callback(os.fsync, descriptor)
    open_files.callback(reached, "ckpt.fsync")
    digest = hashlib.sha256()
    size = 0
    for block in data:
        rest = memoryview(block)
        size += len(rest)
        while rest:
            # Small enough that what was just written is still in the processor's cache.
            chunk = rest[:_CHUNK_BYTES]
            written = os.write(descriptor, chunk)
            digest.update(chunk[:written])
            rest = rest[written:]
            reached("ckpt.write")
    return FileEntry(path.name, size, digest.hexdigest())


def _undo(temporary: Path, final: Path, replaced: Path, *, placed: bool) -> None:
    """Leave the folder as it was before the save; what cannot be done now, `tidy` does later."""
    shutil.rmtree(temporary, ignore_errors=True)
    with contextlib.suppress(OSError):
        if placed:
            discard(final.parent, final.name)
        if replaced.exists() and not final.exists():
            replaced.rename(final)
