"""`checksums.json`: every file of a run with its hash; unfinished writes of processes that died."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from trainwright.core.files import (
    Json,
    hash_file,
    hash_value,
    is_unchanged,
    read_json,
    storage_errors,
    write_json,
)
from trainwright.tracking.identity import Identity, read_identity
from trainwright.tracking.run_folder import RunFolder

_UNFINISHED = re.compile(r"\.tmp-([0-9]+)-")
_FORMAT = 1
_FOLDERS = ("data", "baselines", "bundle", "endings")


def remove_unfinished_of_run(folder: RunFolder) -> None:
    """Remove unfinished writes that dead processes have left in a run folder that is locked.

    Raises:
        StorageFailed: the folder cannot be read or changed.
    """
    remove_unfinished(folder.path, folder.data, folder.path / "baselines")


def remove_unfinished(*places: Path) -> None:
    """Remove unfinished writes that dead processes have left in these folders.

    Raises:
        StorageFailed: a folder cannot be read or changed.
    """
    with storage_errors(f"tidying {places[0]}"):
        for path in (path for place in places for path in place.glob(".tmp-*")):
            match = _UNFINISHED.match(path.name)
            if match is None or _is_of_another(int(match[1])):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def _is_of_another(pid: int) -> bool:
    """Whether another process of this number is alive: it may be writing just now."""
    return pid != os.getpid() and Path(f"/proc/{pid}").exists()


def write_checksums(folder: RunFolder, identity: Identity) -> None:
    """Write the checksums of contract, plan, preflight, data reports, models, evaluation and test
    predictions.

    Raises:
        StorageFailed: the disk.
    """
    names = sorted(_names(folder))
    files = {name: hash_file(folder.path / name) for name in names}
    sizes = {name: (folder.path / name).stat().st_size for name in names}
    content = {"format": _FORMAT, "lineage": identity.lineage, "files": files, "sizes": sizes}
    write_json(folder.checksums, {"content": content, "sha256": hash_value(content)})


def has_checksums(folder: RunFolder) -> bool:
    """Does a finished run have checksums? Earlier versions wrote none."""
    return folder.checksums.is_file()


def changed_files(folder: RunFolder, within: str = "") -> Iterator[tuple[str, str]]:
    """Files that differ from what the run wrote, with the reason; limited to paths that begin with
    `within`.

    Raises:
        OSError, ValueError, KeyError, TypeError: the checksum file cannot be read.
    """
    outer: Json = read_json(folder.checksums)
    content = outer["content"]
    if hash_value(content) != outer["sha256"]:
        yield folder.checksums.name, "its hash is not the one in it"
        return
    if content["lineage"] != read_identity(folder).lineage:
        yield folder.checksums.name, f"it or {folder.plan.name} belongs to another run"
    files: dict[str, Json] = content["files"]
    # Earlier versions recorded no sizes.
    sizes: dict[str, Json] = content.get("sizes", {})
    for name in sorted(one for one in {*files, *_names(folder)} if one.startswith(within)):
        path = folder.path / name
        if name not in files:
            yield name, "the run did not write it"
        elif path.is_symlink() or not path.is_file():
            yield name, "it is missing"
        elif not is_unchanged(path, sizes.get(name, path.stat().st_size), files[name]):
            yield name, "it is not the file that the run wrote"


def _names(folder: RunFolder) -> set[str]:
    """Relative paths, without temporary files of unfinished writes."""
    single = (
        folder.contract,
        folder.plan,
        folder.preflight,
        folder.evaluation,
        folder.predictions,
        folder.ladder,
    )
    names = {path.name for path in single if os.path.lexists(path)}
    for part in _FOLDERS:
        for path in _files_below(folder.path / part):
            names.add(path.relative_to(folder.path).as_posix())
    return names


def _files_below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if not path.name.startswith(".tmp-") and (path.is_symlink() or not path.is_dir()):
            yield path
