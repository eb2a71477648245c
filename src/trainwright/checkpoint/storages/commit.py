"""Atomic commit of a checkpoint to a folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path

from trainwright.checkpoint.files.file_entry import FileEntry
from trainwright.checkpoint.files.manifest import MANIFEST
from trainwright.checkpoint.storages.folder_reuse import (
    TEMPORARY,
    Spare,
    clear_path,
    discard,
    open_reused,
)
from trainwright.checkpoint.storages.ledger import Ledger, LedgerLine
from trainwright.checkpoint.storages.storage import Block, FileSet
from trainwright.core.errors import StorageFailed
from trainwright.core.faultpoints import reached
from trainwright.core.files import check_name, hash_bytes, storage_errors, sync_folder
from trainwright.core.formatting import show_bytes

REPLACED = "replaced-"
_ROOM = 1.2


def commit(
    folder: Path, ledger: Ledger, files: FileSet, reserve_bytes: int, spare: Spare
) -> LedgerLine:
    """Write a checkpoint and its line in the ledger.

    A checkpoint of the same name is replaced; it is restored if the new one fails.

    Raises:
        StorageFailed: the folder is unchanged.
    """
    final, replaced = folder / files.name, folder / f"{REPLACED}{files.name}"
    with storage_errors(f"saving {final}"):
        _check_room(folder, files, reserve_bytes, spare)
        place = files.shards.place
        temporary = folder / place if place else spare.folder()
    placed = committed = False
    try:
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


def make_shard_folder(folder: Path) -> Path:
    """New folder for the shards of several writers, under a temporary name.

    Raises:
        OSError: it cannot be made.
    """
    place = folder / f"{TEMPORARY}{uuid.uuid4().hex}"
    place.mkdir()
    return place


def keep_file(folder: Path, file: FileEntry, content: Iterable[Block], reserve_bytes: int) -> None:
    """Write a file that checkpoints share, under a temporary name first.

    Raises:
        OSError, StorageFailed: the folder is unchanged.
    """
    free, needed = shutil.disk_usage(folder).free, file.size_bytes + reserve_bytes
    if free < needed:
        raise StorageFailed(_no_room(folder, free, needed))
    temporary = folder / f"{TEMPORARY}{uuid.uuid4().hex}"
    try:
        with contextlib.ExitStack() as open_files:
            _write(temporary, content, open_files)
        temporary.rename(folder / file.name)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(folder)


def remove_interrupted_save(folder: Path) -> None:
    """Remove the leftovers of an interrupted save, and restore what it had moved aside.

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


def _check_room(folder: Path, files: FileSet, reserve_bytes: int, spare: Spare) -> None:
    """Give up the folder kept for reuse if the disk has no room next to it."""
    needed = int(_ROOM * files.size_bytes) + reserve_bytes
    if shutil.disk_usage(folder).free < needed:
        spare.give_up()
    if (free := shutil.disk_usage(folder).free) < needed:
        raise StorageFailed(_no_room(folder, free, needed))


def _no_room(folder: Path, free: int, needed: int) -> str:
    return f"saving into {folder}: {show_bytes(free)} are free and {show_bytes(needed)} are needed"


def _write_files(temporary: Path, files: FileSet) -> str:
    """Write every file, the manifest once the others are durable; the manifest's SHA-256."""
    reached("ckpt.open")
    manifest = b""
    written = {file.name for file in files.shards.files}
    unused = {path.name for path in temporary.iterdir()} - written
    with contextlib.ExitStack() as open_files:
        for name, blocks in files.files:
            check_name(name, "a file of a checkpoint")
            unused.discard(name)
            if name == MANIFEST:
                open_files.close()
                manifest = b"".join(blocks)
                blocks = (manifest,)
            _write(temporary / name, blocks, open_files)
    assert manifest, "the manifest comes last"
    for name in unused:
        clear_path(temporary / name)
    reached("ckpt.manifest")
    sync_folder(temporary)
    return hash_bytes(manifest)


def _write(path: Path, blocks: Iterable[Block], open_files: contextlib.ExitStack) -> None:
    """Write a file, replacing an existing one; it is synced and closed when `open_files` exits."""
    descriptor = open_reused(path)
    open_files.callback(os.close, descriptor)
    # Synced together at the end: after the first, the others cost little.
    open_files.callback(os.fsync, descriptor)
    open_files.callback(reached, "ckpt.fsync")
    for block in blocks:
        rest = memoryview(block)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
            reached("ckpt.write")
    os.ftruncate(descriptor, os.lseek(descriptor, 0, os.SEEK_CUR))


def _undo(temporary: Path, final: Path, replaced: Path, *, placed: bool) -> None:
    """Undo the save; `remove_interrupted_save` cleans up the rest later."""
    shutil.rmtree(temporary, ignore_errors=True)
    with contextlib.suppress(OSError):
        if placed:
            discard(final.parent, final.name)
        if replaced.exists() and not final.exists():
            replaced.rename(final)
