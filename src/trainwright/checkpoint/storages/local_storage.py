"""Checkpoint storage in a local folder, with a ledger."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import final

from trainwright.checkpoint.files.file_entry import (
    LEDGER,
    POINTERS,
    QUARANTINE,
    Bytes,
    FileEntry,
    read_file,
    read_verified,
)
from trainwright.checkpoint.keeping.pins import nothing_is_removed, read_pins
from trainwright.checkpoint.storages.catalog import Candidate, Catalog
from trainwright.checkpoint.storages.commit import (
    commit,
    keep_file,
    make_shard_folder,
    remove_interrupted_save,
)
from trainwright.checkpoint.storages.folder_reuse import Spare
from trainwright.checkpoint.storages.ledger import Ledger, LedgerLine
from trainwright.checkpoint.storages.read_catalog import read_catalog
from trainwright.checkpoint.storages.storage import Block, FileSet, Leaving
from trainwright.checkpoint.strict_json import Damaged
from trainwright.core.faultpoints import reached
from trainwright.core.files import check_name, storage_errors, write_json

RESERVE_BYTES = 1024 * 1024


@final
class LocalStorage:
    """A `CheckpointStorage` in a local folder.

    A checkpoint is written under a temporary name, each file fsynced, the manifest last; a rename
    commits it. The ledger lists the checkpoints that should exist.

    Args:
        folder: created if missing.
        reserve_bytes: free disk space that a save must preserve.
    """

    def __init__(self, folder: Path, reserve_bytes: int = RESERVE_BYTES) -> None:
        self._folder = folder
        self._reserve_bytes = reserve_bytes
        self._ledger = Ledger(folder / LEDGER)
        self._spare = Spare(folder)

    @property
    def folder(self) -> Path:
        """Folder of the checkpoints."""
        return self._folder

    def __str__(self) -> str:
        return str(self._folder)

    def open(self) -> Catalog:
        """Reconcile ledger and disk, after interrupted operations are completed or undone."""
        with storage_errors(f"opening {self._folder}"):
            self._folder.mkdir(parents=True, exist_ok=True)
            _check_writable(self._folder)
            remove_interrupted_save(self._folder)
            return read_catalog(self._folder, self._ledger)

    def commit(self, files: FileSet) -> LedgerLine:
        """Write a checkpoint; durable on return."""
        return commit(self._folder, self._ledger, files, self._reserve_bytes, self._spare)

    def begin_shards(self) -> Path:
        """Folder for the shards of the next checkpoint; removed with what is in it if that is not
        committed."""
        with storage_errors(f"writing {self._folder}"):
            return make_shard_folder(self._folder)

    def read(self, name: str, file: str, limit_bytes: int) -> Bytes:
        """Read a regular file; links are not followed."""
        return read_file(self._folder / name, file, limit_bytes)

    def holds(self, file: FileEntry) -> bool:
        """Is this file stored, with the same content?"""
        try:
            read_verified(self.read_shared, file)
        except Damaged:
            return False
        return True

    def keep(self, file: FileEntry, content: Iterable[Block]) -> None:
        """Store a file next to the checkpoints; durable on return."""
        with storage_errors(f"writing {self._folder / file.name}"):
            keep_file(self._folder, file, content, self._reserve_bytes)

    def read_shared(self, file: str, limit_bytes: int) -> Bytes:
        """Read a file next to the checkpoints; links are not followed."""
        check_name(file, "a shared file")
        return read_file(self._folder, file, limit_bytes)

    def retain(self, pointers: Mapping[str, str], leaving: Leaving) -> Iterator[LedgerLine]:
        """Move the pointers, then remove what leaves: a line in the ledger, then the folder.

        The ledger comes first, so that an interrupted removal is not reported as a loss.
        """
        with storage_errors(f"tidying {self._folder}"):
            write_json(self._folder / POINTERS, dict(pointers))
            reached("ckpt.pointer")
            with nothing_is_removed(self._folder):
                for line in leaving(read_pins(self._folder)):
                    self._ledger.append([line.now("removed")])
                    yield line
                    if (self._folder / line.name).exists():
                        self._spare.keep(line.name)
            reached("ckpt.retain")

    def set_aside(self, candidate: Candidate) -> str:
        """Rename it to a name that no checkpoint has."""
        aside = f"{QUARANTINE}{uuid.uuid4().hex[:8]}-{candidate.name}"
        path = self._folder / candidate.name
        where = ""
        with contextlib.suppress(OSError):
            if path.exists() or path.is_symlink():
                path.rename(self._folder / aside)
                where = aside
                reached("ckpt.aside")
            if isinstance(candidate.line, LedgerLine):
                self._ledger.append([candidate.line.now("quarantined")])
        return where


def _check_writable(folder: Path) -> None:
    """Fail before the first step rather than at the first save."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "this folder cannot be written to")
