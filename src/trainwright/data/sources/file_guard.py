"""Detection of input files that change during training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, final

from trainwright.core.hashing import is_unchanged
from trainwright.data.sources.source_file import FileVersion


class _Stamp(NamedTuple):
    size_bytes: int
    written: int
    number: int


_GONE = _Stamp(0, 0, 0)


@final
class FilesRead:
    """The local files that a run has read, as they lie on the disk. A file is only read again where
    its size, its time or its place on the disk has changed, or it was written after `since` (in
    nanoseconds since 1970), when the reading began: else looking costs nothing.

    Only inputs that are single files are looked at. Images are used as they were kept when the run
    began, whatever becomes of their files."""

    def __init__(self, files: Sequence[FileVersion], folder: Path, since: int) -> None:
        self._since = since
        self._files: Mapping[Path, FileVersion] = {
            folder / file.path: file
            for file in files
            if file.file_sha256 and "://" not in file.path
        }
        self._stamps = {path: _stamp(path) for path in self._files}

    def changed(self) -> tuple[str, ...]:
        """The files, as the contract calls them, whose content is not what was read."""
        return tuple(
            file.path
            for path, file in self._files.items()
            if not path.is_file()
            or (
                self._may_differ(path) and not is_unchanged(path, file.size_bytes, file.file_sha256)
            )
        )

    def _may_differ(self, path: Path) -> bool:
        stamp = self._stamps[path]
        return stamp.written >= self._since or _stamp(path) != stamp


def _stamp(path: Path) -> _Stamp:
    if not path.is_file():
        return _GONE
    found = path.stat()
    return _Stamp(found.st_size, found.st_mtime_ns, found.st_ino)
