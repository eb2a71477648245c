"""Resolution of image paths: class folders, tables or tar shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import final

from trainwright.contract.sections.data.images import ImageData, ImageFields
from trainwright.contract.sections.data.sources import USUAL
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.redaction import redact
from trainwright.data.base.inputs import PartName
from trainwright.data.base.messages import some
from trainwright.data.images.class_folders import (
    ClassFolders,
    LocalTree,
    LooseImages,
    RemoteTree,
    Tree,
    part_folders,
)
from trainwright.data.images.decode import SUFFIXES
from trainwright.data.images.image_table import TableOfImages, names_table
from trainwright.data.images.raw_images import ImageRequest, PictureSource, Record
from trainwright.data.images.webdataset import TarShard, is_tar
from trainwright.data.sources.cache import Tables
from trainwright.data.sources.folders import is_pattern
from trainwright.data.sources.remote_store import RemotePlace, is_remote

_EXPECTED = (
    "a folder with a folder for each class, a table (.csv, .parquet, ...), tar shards (.tar, "
    ".tar.gz) or the four IDX files of the MNIST family"
)
_IDX = "*-idx[13]-ubyte*"


@final
class RemoteFile:
    """A shard or table in a store, fetched when its images are asked for and `opened` then."""

    def __init__(
        self,
        store: RemotePlace,
        name: str,
        url: str,
        shown: str,
        opened: Callable[[Path], PictureSource],
    ) -> None:
        self.written = shown
        self._store = store
        self._name = name
        self._url = url
        self._opened = opened

    def records(self) -> Iterator[Record]:
        """Those of the file."""
        with self._store.errors():
            file = self._store.fetched(self._name, self._url)
        yield from self._opened(file).records()


@final
class Shards:
    """Several files as one source, in name order."""

    def __init__(self, written: str, sources: Sequence[PictureSource]) -> None:
        self.written = written
        self._sources = tuple(sources)

    def records(self) -> Iterator[Record]:
        """Shard after shard."""
        for source in self._sources:
            yield from source.records()


def holds_idx(folder: Path) -> bool:
    """Whether a folder has files of the MNIST family."""
    return any(folder.glob(_IDX))


def is_idx(file: Path) -> bool:
    """Whether a file has the name of one of the MNIST family's."""
    return file.is_file() and file.match(_IDX)


def open_parts(section: ImageData, folder: Path, tables: Tables) -> dict[PartName, PictureSource]:
    """The sources of the training images and of the parts that stand apart; rows of tables are kept
    in `tables`.

    Raises:
        DataMistake: a path is no source of images.
    """
    parts: dict[PartName, PictureSource] = {}
    inside = part_folders(_folders(section.path, folder, tables))
    named: tuple[tuple[PartName, str, str], ...] = (
        ("train", section.path, "data.path"),
        ("validation", section.val_path, "data.val_path"),
        ("test", section.test_path, "data.test_path"),
    )
    problems: list[Problem] = []
    for part, written, path in named:
        found = inside.get(part, ()) if part == "train" or not written else ()
        if len(found) > 1:
            problems.append(_several(part, list(found), path, section.path))
        if found:
            written = f"{section.path.rstrip('/')}/{found[0]}"
        if not written:
            continue
        try:
            may_be_empty = bool(section.labels.separator)
            parts[part] = open_source(
                written, folder, section.fields, path, tables, may_be_empty=may_be_empty
            )
        except DataMistake as mistake:
            problems += mistake.problems
    if problems:
        raise DataMistake(problems)
    return parts


def _several(part: PartName, names: list[str], path: str, folder: str) -> Problem:
    first = f"{folder.rstrip('/')}/{names[0]}"
    return Problem(
        f"several folders could be the {part} part",
        path=path,
        found=" and ".join(names),
        expected="one",
        fix="put their images into one, or rename the others"
        if part == "train"
        else f"name the one that is meant, for example {path.partition('.')[2]}: {first}",
        place=Place(folder),
    )


def open_source(
    written: str,
    folder: Path,
    fields: ImageFields,
    path: str,
    tables: Tables,
    *,
    labelled: bool = True,
    may_be_empty: bool = False,
) -> PictureSource:
    """The source that is called `written`, relative to `folder`, or at a URL; unlabelled, a folder
    of this machine is all the images in it. Rows of a table, and what is fetched from elsewhere,
    are kept in `tables`.

    Raises:
        DataMistake: it is none.
    """
    if is_remote(written):
        asked = ImageRequest(folder / written, written, fields, path, labelled, may_be_empty)
        return _open_remote(asked, folder, tables)
    at = folder / written

    def one(name: str) -> PictureSource:
        asked = ImageRequest(folder / name, name, fields, path, labelled, may_be_empty)
        return _open_file(asked, _tree(asked, folder, tables), tables)

    if at.is_dir():
        shards = [child for child in sorted(at.iterdir()) if is_shard(child.name)]
        if shards:
            base = written.rstrip("/")
            return Shards(written, [one(f"{base}/{child.name}") for child in shards])
        return ClassFolders(LocalTree(at), written, path) if labelled else LooseImages(at, written)
    if any(mark in written for mark in "*?["):
        return Shards(written, _matching(written, folder, path, one))
    if not labelled and at.suffix.lower() in SUFFIXES:
        return LooseImages(at, written)
    return one(written)


def is_shard(name: str) -> bool:
    """Does a file's name say that it is a tar shard?"""
    return not name.startswith(".") and is_tar(name)


def _matching(
    written: str, folder: Path, path: str, one: Callable[[str], PictureSource]
) -> list[PictureSource]:
    base = Path(written).parent
    # Wildcards are allowed in the last component only: a recursive walk finds unintended files.
    found = sorted((folder / base).glob(Path(written).name))
    if not found:
        raise DataMistake(_no_match(written, path))
    return [one((base / file.name).as_posix()) for file in found]


def _open_remote(asked: ImageRequest, folder: Path, tables: Tables) -> PictureSource:
    """What a URL names."""
    written = asked.written
    # What stands in the record has no key, and no query that may hold one.
    said = redact(written).partition("?")[0]
    store = RemotePlace(written, asked.path, USUAL, tables)

    def one(name: str, url: str) -> RemoteFile:
        shown = redact(url).partition("?")[0]
        root = asked.fields.root
        tree: Tree = RemoteTree(store, name.rpartition("/")[0])
        tree = _tree(asked, folder, tables) if root else tree

        def opened(file: Path) -> PictureSource:
            return _open_file(replace(asked, file=file, written=shown), tree, tables)

        return RemoteFile(store, name, url, shown, opened)

    if is_pattern(written):
        with store.errors():
            names = store.matching()
        names = [name for name in names if is_shard(_last(name)) or names_table(name)]
    elif is_shard(_last(written)) or names_table(written):
        return one(store.root, written)
    else:
        tree = RemoteTree(store, store.root)
        names = [f"{store.root}/{name}" for name in tree.files() if is_shard(name)]
        if not names:
            return ClassFolders(tree, said, asked.path)
    if not names:
        raise DataMistake(_no_match(said, asked.path))
    return Shards(said, [one(name, store.url(name)) for name in names])


def _tree(asked: ImageRequest, folder: Path, tables: Tables) -> Tree:
    """Where the image paths of a table begin."""
    root = asked.fields.root
    if is_remote(root):
        store = RemotePlace(root, "data.fields.root", USUAL, tables)
        return RemoteTree(store, store.root)
    return LocalTree(folder / root if root else asked.file.parent)


def _folders(written: str, folder: Path, tables: Tables) -> list[str]:
    """The names of the folders in what the contract calls `written`, if it is one."""
    if not is_remote(written):
        return LocalTree(folder / written).folders()
    if is_pattern(written) or is_shard(_last(written)) or names_table(written):
        return []
    store = RemotePlace(written, "data.path", USUAL, tables)
    return RemoteTree(store, store.root).folders()


def _last(written: str) -> str:
    """The last piece of a URL without what stands behind its `?`."""
    return written.partition("?")[0].rpartition("/")[2]


def _no_match(written: str, path: str) -> Problem:
    return Problem(
        "no file fits the pattern",
        path=path,
        found=written,
        expected="the files of shards",
        fix="correct the pattern",
        place=Place(written),
    )


def _open_file(asked: ImageRequest, tree: Tree, tables: Tables) -> PictureSource:
    written = asked.written
    if is_tar(written):
        return TarShard(asked)
    if names_table(written):
        return TableOfImages(asked, tree, tables)
    parent = asked.file.parent
    there = sorted(child.name for child in parent.iterdir())[:50] if parent.is_dir() else []
    raise DataMistake(
        Problem(
            "there are no images by this name",
            path=asked.path,
            found=f"{written}; beside it {some(there, 5)}" if there else written,
            expected=_EXPECTED,
            fix="correct the path, which is relative to the contract's folder",
            place=Place(written),
        )
    )
