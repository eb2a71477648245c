"""Files that are mapped into memory to be read, and their pages, which count as memory of the
process until they are given back."""

from __future__ import annotations

import mmap
import weakref
from pathlib import Path

_MAPPED: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


def map_to_read(file: Path) -> mmap.mmap:
    """Bytes of a non-empty file that is not written to."""
    with file.open("rb") as stream:
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    _MAPPED.add(mapped)
    return mapped


def release_pages() -> None:
    """Give back the pages of all files that are mapped; those looked at again come back from the
    system's cache."""
    for mapped in tuple(_MAPPED):
        mapped.madvise(mmap.MADV_DONTNEED)
