"""Whether the files of a run are still what was read, while it trains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, final

from trainwright.core.hashing import hash_file
from trainwright.data.sources import FileVersion


class _Stamp(NamedTuple):
    size_bytes: int
    written: int
    number: int


@final
class FilesRead:
    """The local files that a run has read, as they lie on the disk. A file is only read again where
    its size, its time or its place on the disk has changed, or it was written after `since` (in
    nanoseconds since 1970), when the reading began: else looking costs nothing."""

    def __init__(self, files: Sequence[FileVersion], folder: Path, since: int) -> None:
        self._since = since
        self._hashes = {folder / file.path: file for file in files if "://" not in file.path}
        self._stamps: Mapping[Path, _Stamp] = {
            path: _stamp(path) for path in self._hashes if path.is_file()
        }

    def changed(self) -> tuple[str, ...]:
        """The files, as the contract calls them, whose content is not what was read."""
        return tuple(
            self._hashes[path].path
            for path, stamp in self._stamps.items()
            if not path.is_file()
            or (self._may_differ(path, stamp) and hash_file(path) != self._hashes[path].sha256)
        )

    def _may_differ(self, path: Path, stamp: _Stamp) -> bool:
        return stamp.written >= self._since or _stamp(path) != stamp


def _stamp(path: Path) -> _Stamp:
    found = path.stat()
    return _Stamp(found.st_size, found.st_mtime_ns, found.st_ino)
