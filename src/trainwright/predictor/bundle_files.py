"""Files of a bundle: names, sizes and hashes, and how they differ from what was written."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json
from trainwright.core.hashing import hash_file
from trainwright.core.paths import check_name

_MOST_FILES = 1000
_FIX = "copy the bundle again, or train again"


def changes_of_files(folder: Path, listed: Mapping[str, Json]) -> Iterator[Problem]:
    """Listed files that are missing, or are other ones."""
    for name, written in listed.items():
        path = folder / name
        if _is_link(path, folder) or not path.is_file():
            yield Problem(f"{name} is missing", expected="a file", fix=_FIX)
        elif problem := _changed(path, written):
            yield problem


def _is_link(path: Path, folder: Path) -> bool:
    return path != folder and (path.is_symlink() or _is_link(path.parent, folder))


def names_of_files(folder: Path) -> set[str]:
    """Paths of all files in the folder, and of what is neither file nor folder; links are not
    followed."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return {path.relative_to(folder).as_posix() for path in found}


def are_safe_names(names: Collection[str]) -> bool:
    """Are these few, and none of them leaves the folder?"""
    try:
        return len(names) <= _MOST_FILES and all(
            check_name(one, "a file") for name in names for one in name.split("/")
        )
    except Mistake:
        return False


def sync_file(path: Path) -> None:
    """Wait until the disk has a file."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def _changed(path: Path, written: Json) -> Problem | None:
    """What is wrong with a file; one of another size is not read."""
    size = path.stat().st_size
    if isinstance(written, dict) and written.get("size_bytes") != size:
        found = f"{size} bytes"
    elif (described := describe_file(path)) != written:
        found = _show(described)
    else:
        return None
    said = f"{path.name} is not the file that was written"
    return Problem(said, found=found, expected=_show(written), fix=_FIX)


def describe_file(path: Path) -> dict[str, Json]:
    """SHA-256 and size."""
    return {"sha256": hash_file(path), "size_bytes": path.stat().st_size}


def _show(file: Json) -> str:
    if not isinstance(file, dict):
        return repr(file)[:80]
    return f"{file.get('size_bytes')} bytes, sha256 {str(file.get('sha256'))[:16]}"
