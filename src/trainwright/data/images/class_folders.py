"""Image folders: one per class, or unlabelled."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import final

from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.data.base.messages import some
from trainwright.data.images.decode import SUFFIXES
from trainwright.data.images.file_tree import Tree, image_files
from trainwright.data.images.image_record import Record
from trainwright.data.images.read_image_file import read_inside

_GROUP = 64

PART_NAMES = {
    "train": ("train", "training"),
    "validation": ("val", "valid", "validation"),
    "test": ("test", "testing"),
}
"""What the folders of the parts may be called."""


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
