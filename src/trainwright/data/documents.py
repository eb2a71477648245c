"""Texts one after the other: a file, a folder of files, or a column of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

import polars as pl

from trainwright.contract.tokens import TokenData
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.hashing import hash_file
from trainwright.data.encodings import text_blocks
from trainwright.data.folders import check_inside
from trainwright.data.formats import check_content, is_aside
from trainwright.data.local import check_file
from trainwright.data.sources import FileVersion, SourceFile, read_source
from trainwright.data.unpacking import check_size
from trainwright.data.wording import nearest, quoted, some

END = "\x1e"
"""Stands behind each document where there are several: U+001E, the record separator of ASCII."""

_SUFFIXES = (".txt", ".md", ".text")
_BLOCK_ROWS = 4096


@final
@dataclass(frozen=True, slots=True)
class Documents:
    """A text that is read block by block, as often as it is asked for. `files` are what it came
    from, `several` says that `END` stands behind each document and nowhere else, and that a block
    ends there, `notes` are for people."""

    files: tuple[FileVersion, ...]
    blocks: Callable[[], Iterator[str]]
    several: bool
    notes: tuple[str, ...] = ()


def find_documents(section: TokenData, folder: Path) -> Documents:
    """The text that a contract names, relative to `folder`.

    Raises:
        DataMistake: there is none, it is not of the encoding, or a document holds the mark that
            stands between two.
    """
    if section.text:
        return _of_column(section, folder)
    if (folder / section.path).is_dir():
        return _of_folder(section, folder)
    return _of_file(section, folder)


def _of_file(section: TokenData, folder: Path) -> Documents:
    file = folder / section.path
    version = _checked(file, section.path, section)
    return Documents(
        (version,), lambda: text_blocks(file, section.path, section.reading.encoding), several=False
    )


def _of_folder(section: TokenData, folder: Path) -> Documents:
    place = folder / section.path
    names = sorted(
        child.relative_to(place).as_posix()
        for child in place.rglob("*")
        if child.suffix.lower() in _SUFFIXES
        and child.is_file()
        and not is_aside(child.relative_to(place).as_posix())
    )
    if not names:
        raise DataMistake(
            Problem(
                "the folder holds no texts",
                path="data.path",
                expected=f"files that end in {', '.join(_SUFFIXES)}",
                fix="name a text, or a table of texts with its column in data.text",
                place=Place(section.path),
            )
        )
    check_inside(place, [place / name for name in names], section.path, "data.path")
    written = [f"{section.path.rstrip('/')}/{name}" for name in names]
    versions = tuple(_checked(folder / name, name, section) for name in written)

    def blocks() -> Iterator[str]:
        for name in written:
            for block in text_blocks(folder / name, name, section.reading.encoding):
                yield _without_end(block, name)
            yield END

    return Documents(versions, blocks, several=True)


def _of_column(section: TokenData, folder: Path) -> Documents:
    source = read_source(section.path, folder, reading=section.reading)
    _check_column(section, source)
    # What a reader makes of an empty field is its own affair: "" or null.
    texts = source.frame[section.text].replace("", None)
    notes = (f"{count} rows without a text left out",) if (count := texts.null_count()) else ()

    def blocks() -> Iterator[str]:
        for start in range(0, len(texts), _BLOCK_ROWS):
            for at, text in enumerate(texts.slice(start, _BLOCK_ROWS)):
                if text is not None:
                    yield _without_end(text, source.place(start + at).file) + END

    return Documents(source.files, blocks, several=True, notes=notes)


def _check_column(section: TokenData, source: SourceFile) -> None:
    names = [name for name, kind in source.frame.schema.items() if kind == pl.String]
    if section.text in names:
        return
    near = nearest(section.text, names)
    raise DataMistake(
        Problem(
            f"there is no column of texts {section.text!r}",
            path="data.text",
            found=section.text,
            expected=f"one of: {some(names, 12)}" if names else "a column of text",
            fix=f"did you mean {near!r}?" if near else f"name one of {quoted(names)}",
            place=source.place(),
        )
    )


def _checked(file: Path, written: str, section: TokenData) -> FileVersion:
    check_file(file, written, "data.path")
    check_content(file, "text", written, section.reading.encoding)
    size = file.stat().st_size
    check_size(size, written, section.reading)
    sha256 = hash_file(file)
    return FileVersion(written, sha256, size, 0, file_sha256=sha256)


def _without_end(text: str, written: str) -> str:
    if END not in text:
        return text
    raise DataMistake(
        Problem(
            "a document holds the mark that stands between two documents",
            path="data.path",
            found="U+001E",
            fix="remove the mark from the texts",
            place=Place(written),
        )
    )
