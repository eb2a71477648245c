"""Folders of images, local or remote: one per class, or unlabelled."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Protocol, final

from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.data.base.messages import some
from trainwright.data.images.decode import SUFFIXES, ImageFault
from trainwright.data.images.raw_images import Record
from trainwright.data.images.read_image_file import read_each_inside, read_image_file, read_inside
from trainwright.data.sources.remote_store import RemotePlace

_AT_ONCE = 16
"""Files fetched beside each other: most of the time of a small one is spent waiting."""

_GROUP = 64

PART_NAMES = {
    "train": ("train", "training"),
    "validation": ("val", "valid", "validation"),
    "test": ("test", "testing"),
}
"""What the folders of the parts may be called."""


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


@final
class ClassFolders:
    """A folder with a folder for each class, which may hold folders of its own. Files whose name is
    not that of an image are passed over."""

    def __init__(self, tree: Tree, written: str, path: str) -> None:
        self.written = written
        self._tree = tree
        self._path = path

    def records(self) -> Iterator[Record]:
        """Class by class, in the order of the names."""
        classes = self._tree.folders()
        if not classes:
            raise DataMistake(self._no_classes())
        for label in classes:
            names = self._tree.images(label)
            empty = True
            while group := tuple(islice(names, _GROUP)):
                empty = False
                for name, data in zip(group, self._tree.read(group), strict=True):
                    place = Place(f"{self.written.rstrip('/')}/{name}")
                    yield Record(name, label, "", data, place)
            if empty:
                raise DataMistake(self._empty_class(label))

    def _no_classes(self) -> Problem:
        there = self._tree.files()[:100]
        return Problem(
            "the folder holds no folders of classes",
            path=self._path,
            found=some(there, 4) if there else "nothing",
            expected="a folder for each class with its images in it",
            fix="put the images of each class into a folder of its name, or name a table with a "
            "column of image paths",
            place=Place(self.written),
        )

    def _empty_class(self, label: str) -> Problem:
        return Problem(
            "the folder of a class holds no image",
            path=self._path,
            found=label,
            expected=f"files that end in {', '.join(SUFFIXES)}",
            fix="remove the folder, or add its images",
            place=Place(f"{self.written.rstrip('/')}/{label}"),
        )


@final
class LooseImages:
    """All images of a folder and of the folders in it, or a single image, without labels."""

    def __init__(self, path: Path, written: str) -> None:
        self.written = written
        self._at = path

    def records(self) -> Iterator[Record]:
        """In the order of their paths."""
        at = self._at.resolve()
        root = at if at.is_dir() else at.parent
        for file in image_files(at) if at.is_dir() else iter([at]):
            name = file.relative_to(root).as_posix()
            yield Record(name, "", "", read_inside(file, root), Place(str(file)))


def part_folders(folders: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Those of the folders in a folder that are called as a part may be, by part; empty if there is
    none for training."""
    found = {
        part: tuple(name for name in names if name in folders) for part, names in PART_NAMES.items()
    }
    return {part: there for part, there in found.items() if there} if found["train"] else {}
