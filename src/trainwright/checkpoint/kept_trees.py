"""Trees saved while a boosting run grows them. Needs no torch.

A file holds all trees so far as JSON, with its SHA-256 and the lineage of its run: it is replaced
atomically, and is never read unless it verifies.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from trainwright.checkpoint.files.file_entry import QUARANTINE, TREES
from trainwright.checkpoint.strict_json import write_sealed
from trainwright.core.errors import NoValidCheckpoint, StorageFailed
from trainwright.core.files import (
    Json,
    hash_value,
    read_json,
    storage_errors,
    sync_folder,
    write_atomic,
)
from trainwright.model.tree_growth import NOTHING_GROWN, Grown
from trainwright.tracking.identity import Identity

_FORMAT = 1
_FILES = 2
"""Two, because the newest may turn out damaged."""

_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError)


@final
@dataclass(frozen=True, slots=True)
class FoundTrees:
    """Saved trees: the name of their file, empty if there is none, and the library and thread count
    they were grown with. `rejected` says what was wrong with each newer one."""

    name: str = ""
    grown: Grown = NOTHING_GROWN
    grown_with: Json = field(default_factory=dict)
    rejected: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class KeptTrees:
    """Tree files of a run, in its checkpoint folder, which one process owns.

    `read_grown` reads and checks trees of so many outputs for the library that grew them. `begun`
    is the evidence that trees were saved before; if it is not empty, their absence is an error.
    """

    folder: Path
    identity: Identity
    read_grown: Callable[[Json, int], Grown]
    begun: str = ""

    def save(self, grown: Grown, grown_with: Json, *, alone: bool = False) -> tuple[str, int]:
        """Write a file, then remove the oldest; the file's name and bytes. With `alone`, training
        started anew: all others are removed.

        Raises:
            StorageFailed: the older files are unchanged.
        """
        content = {
            "lineage": self.identity.lineage,
            "grown_with": grown_with,
            "grown": grown.to_json(),
        }
        path = self.folder / f"trees-{grown.trees:010d}.json"
        data = write_sealed(content, _FORMAT)
        with storage_errors(f"making {self.folder}"):
            self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)
        others = [other for other in self._files() if other != path]
        for old in others[0 if alone else _FILES - 1 :]:
            with contextlib.suppress(OSError):  # the next save tries again
                old.unlink()
        return path.name, len(data)

    def newest_valid(self, outputs: int) -> FoundTrees:
        """Newest file that verifies. Newer ones that do not are set aside, never deleted.

        Raises:
            NoValidCheckpoint: there were some, and none verifies; or they belong to another run.
                StorageFailed: not readable.
        """
        rejected: list[str] = []
        for path in self._files():
            try:
                content = _content(path)
                self._check_owner(content)
                grown = self.read_grown(content["grown"], outputs)
                if path.name != f"trees-{grown.trees:010d}.json":
                    raise ValueError(f"it holds {grown.trees} trees")
            except OSError as error:
                raise StorageFailed(f"reading {path}: {error.strerror or error}") from error
            except _UNREADABLE as error:
                rejected.append(f"{path.name}: {error}{self._set_aside(path)}")
                continue
            return FoundTrees(path.name, grown, content["grown_with"], tuple(rejected))
        tried = rejected or [path.name for path in self.folder.glob(f"{QUARANTINE}*-trees-*")]
        if tried or self.begun:
            listed = "".join(f"\n    {one}" for one in tried) or f"\n    it is empty, {self.begun}"
            raise NoValidCheckpoint(
                f"no trees kept in {self.folder} can be used, and the run does not start over "
                f"silently. Restore the files, or start a new run. Tried:{listed}"
            )
        return FoundTrees()

    def _files(self) -> list[Path]:
        """Newest first."""
        if not self.folder.is_dir():
            return []
        with storage_errors(f"reading {self.folder}"):
            found = [path for path in self.folder.iterdir() if TREES.fullmatch(path.name)]
        return sorted(found, reverse=True)

    def _check_owner(self, content: Json) -> None:
        wanted = self.identity.lineage
        if wanted and content["lineage"] != wanted:
            raise NoValidCheckpoint(
                f"the trees in {self.folder} belong to another run (another run id, plan or data "
                "version): put back those of this run, or start a new one"
            )

    def _set_aside(self, path: Path) -> str:
        name = f"{QUARANTINE}{uuid.uuid4().hex[:8]}-{path.name}"
        with storage_errors(f"setting {path} aside"):
            path.rename(path.with_name(name))
            sync_folder(self.folder)
        return f" (kept as {name})"


def _content(path: Path) -> Json:
    if path.is_symlink():
        raise ValueError("a link")
    outer = read_json(path)
    if hash_value(outer["content"]) != outer["sha256"]:
        raise ValueError("its hash is not the one in it")
    if outer["content"]["format"] != _FORMAT:
        raise ValueError(f"format {outer['content']['format']!r:.20} is unknown")
    return outer["content"]
