"""Local and remote folders of image files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Protocol, final

from trainwright.data.images.decode import SUFFIXES, ImageFault
from trainwright.data.images.read_image_file import read_each_inside, read_image_file
from trainwright.data.sources.remote_store import RemotePlace

_AT_ONCE = 16
"""Files fetched beside each other: most of the time of a small one is spent waiting."""


class Tree(Protocol):
    """A folder, the folders in it, and the images below them, by names that begin there.

    Implementations read nothing that lies outside of the folder, whatever a name says.
    """

    def folders(self) -> list[str]:
        """The names of the folders in it, in order, without hidden ones."""
        ...

    def files(self) -> list[str]:
        """The names of the files in it, in order."""
        ...

    def images(self, folder: str) -> Iterator[str]:
        """The files below one of the folders whose names are those of images, in order."""
        ...

    def read(self, names: Sequence[str]) -> Iterable[bytes | ImageFault]:
        """The content of each, or why there is none."""
        ...


@final
class LocalTree:
    """A local folder."""

    def __init__(self, folder: Path) -> None:
        self._root = folder.resolve()

    def folders(self) -> list[str]:
        """The names of its folders."""
        return [name for name in self._names(folders=True) if not name.startswith(".")]

    def files(self) -> list[str]:
        """The names of its files."""
        return self._names(folders=False)

    def images(self, folder: str) -> Iterator[str]:
        """The images below a folder."""
        for file in image_files(self._root / folder):
            yield file.relative_to(self._root).as_posix()

    def read(self, names: Sequence[str]) -> Iterable[bytes | ImageFault]:
        """One after the other, on demand."""
        return read_each_inside(names, self._root)

    def _names(self, *, folders: bool) -> list[str]:
        if not self._root.is_dir():
            return []
        return sorted(one.name for one in self._root.iterdir() if one.is_dir() == folders)


@final
class RemoteTree:
    """A folder in a remote store, listed once."""

    def __init__(self, store: RemotePlace, root: str) -> None:
        self._store = store
        self._root = root.rstrip("/")
        self._listed: list[str] | None = None

    def folders(self) -> list[str]:
        """The names of its folders."""
        found = {name.partition("/")[0] for name in self._names() if "/" in name}
        return sorted(name for name in found if not name.startswith("."))

    def files(self) -> list[str]:
        """The names of its files."""
        return [name for name in self._names() if "/" not in name]

    def images(self, folder: str) -> Iterator[str]:
        """The images below a folder."""
        for name in self._names():
            inner = name.split("/")
            if inner[0] == folder and len(inner) > 1 and _is_image(inner):
                yield name

    def read(self, names: Sequence[str]) -> Iterable[bytes | ImageFault]:
        """Several fetched at once, in their order."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            waiting = iter(names)
            while group := tuple(islice(waiting, _AT_ONCE)):
                yield from pool.map(self._read, group)

    def _read(self, name: str) -> bytes | ImageFault:
        if name.startswith("/") or not {"", ".", ".."}.isdisjoint(name.split("/")):
            return ImageFault(
                "the path leads out of its folder",
                found=name[:200],
                expected="the name of a file below it",
                fix="copy the image into the folder",
                droppable=False,
            )
        at = f"{self._root}/{name}"
        with self._store.errors():
            try:
                return read_image_file(self._store.fetched(at, self._store.url(at)))
            except FileNotFoundError:
                return ImageFault(
                    "there is no such file", fix="correct the path, or put the file there"
                )

    def _names(self) -> list[str]:
        """All files below it."""
        if self._listed is None:
            with self._store.errors():
                found = self._store.below()
            start = f"{self._root}/"
            self._listed = [name.removeprefix(start) for name in found if name.startswith(start)]
        return self._listed


def image_files(folder: Path) -> Iterator[Path]:
    """The images below a folder by their names, in order, without following folders' links."""
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if Path(name).suffix.lower() in SUFFIXES and not name.startswith("."):
                yield Path(here) / name


def _is_image(pieces: Sequence[str]) -> bool:
    hidden = any(piece.startswith(".") for piece in pieces)
    return not hidden and Path(pieces[-1]).suffix.lower() in SUFFIXES
