"""Writes a checkpoint into a folder so that it is whole or absent, whatever happens, and when."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path

from trainwright.checkpoint.ledger import Ledger, Line
from trainwright.checkpoint.manifest import MANIFEST
from trainwright.checkpoint.storage import Block, FileSet
from trainwright.core.errors import StorageFailed
from trainwright.core.faultpoints import reached
from trainwright.core.files import sync_folder
from trainwright.core.hashing import hash_bytes
from trainwright.core.paths import check_name
from trainwright.core.units import show_bytes

TEMPORARY = ".tmp-"
REPLACED = "replaced-"
_ROOM = 1.2
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def commit(folder: Path, ledger: Ledger, files: FileSet, reserve_bytes: int) -> Line:
    """Write a checkpoint and its line in the ledger.

    A checkpoint of the same name is replaced; it comes back if this one fails.

    Raises:
        StorageFailed: the folder is as it was.
    """
    temporary = folder / f"{TEMPORARY}{uuid.uuid4().hex}"
    final, replaced = folder / files.name, folder / f"{REPLACED}{files.name}"
    placed = committed = False
    try:
        _check_room(folder, files.size_bytes, reserve_bytes)
        line = files.line(_write_files(temporary, files))
        reached("ckpt.pre_rename")
        if final.exists():
            final.rename(replaced)
        temporary.rename(final)
        placed = True
        sync_folder(folder)
        reached("ckpt.post_rename")
        ledger.append([line, *files.beside])
        committed = True
    except OSError as error:
        raise StorageFailed(f"saving {final}: {error.strerror or error}") from error
    finally:
        if not committed:
            _undo(temporary, final, replaced, placed=placed)
    shutil.rmtree(replaced, ignore_errors=True)
    return line


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


def _write_files(temporary: Path, files: FileSet) -> str:
    """Write every file, the manifest when the others are on the disk; the manifest's SHA-256."""
    temporary.mkdir(mode=0o700)
    reached("ckpt.open")
    manifest = b""
    with contextlib.ExitStack() as open_files:
        for name, blocks in files.files:
            check_name(name, "a file of a checkpoint")
            if name == MANIFEST:
                open_files.close()
                manifest = b"".join(blocks)
                blocks = (manifest,)
            _write(temporary / name, blocks, open_files)
    assert manifest, "the manifest comes last"
    reached("ckpt.manifest")
    sync_folder(temporary)
    return hash_bytes(manifest)


def _write(path: Path, blocks: Iterable[Block], open_files: contextlib.ExitStack) -> None:
    """Write a new file; it is synced and closed when `open_files` ends."""
    descriptor = os.open(path, _NEW, 0o600)
    open_files.callback(os.close, descriptor)
    # Synced together at the end: after the first, the others cost little.
    open_files.callback(os.fsync, descriptor)
    open_files.callback(reached, "ckpt.fsync")
    for block in blocks:
        rest = memoryview(block)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
            reached("ckpt.write")


def _undo(temporary: Path, final: Path, replaced: Path, *, placed: bool) -> None:
    """Leave the folder as it was before the save; what cannot be done now, `tidy` does later."""
    shutil.rmtree(temporary, ignore_errors=True)
    with contextlib.suppress(OSError):
        if placed:
            discard(final.parent, final.name)
        if replaced.exists() and not final.exists():
            replaced.rename(final)
