"""Text documents of a file, a folder of files, or a column of a table, and their chunks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby
from pathlib import Path
from typing import Literal, NamedTuple, final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.data_traits import Mixture
from trainwright.contract.sections.data.table_data import TableData
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.files import hash_file
from trainwright.core.formatting import many
from trainwright.data.base.cleaned_cells import Cleaning
from trainwright.data.base.inputs import Integers
from trainwright.data.base.messages import nearest_option, quoted, some
from trainwright.data.base.token_inputs import DOCUMENT_END
from trainwright.data.formats.encodings import check_size, text_blocks
from trainwright.data.formats.file_format import check_content, is_aside
from trainwright.data.images.decode import SUFFIXES as IMAGES
from trainwright.data.sampling.build_sampler import source_codes
from trainwright.data.sources.find_source import read_source
from trainwright.data.sources.folders import check_inside
from trainwright.data.sources.local_files import check_file
from trainwright.data.sources.source_file import FileVersion, SourceFile

END = DOCUMENT_END
"""Terminator of each document where there are several."""

_SUFFIXES = (".txt", ".md", ".text")
_BLOCK_ROWS = 4096
_TOLD = 2**26
"""Characters from one message about a pass to the next."""

LongDocuments = Literal["split", "cut", "exclude"]


class SourceSize(NamedTuple):
    """Name and document count of a source."""

    name: str
    documents: int


@final
@dataclass(frozen=True, slots=True)
class Documents:
    """A re-iterable text in blocks. `files` are its inputs; `several`: `END` terminates each
    document, occurs nowhere else, and blocks end there; `notes` are messages. The documents of each
    of the `sources` are consecutive; `sources` is empty without mixing."""

    files: tuple[FileVersion, ...]
    blocks: Callable[[], Iterator[str]]
    several: bool
    notes: tuple[str, ...] = ()
    sources: tuple[SourceSize, ...] = ()

    def telling(self, tell: Callable[[str], None]) -> Documents:
        """The same text; `tell` receives each pass over it and its progress."""
        passes = count(1)

        def blocks() -> Iterator[str]:
            number, read, told = next(passes), 0, 0
            for block in self.blocks():
                read += len(block)
                if read - told >= _TOLD:
                    told = read
                    tell(f"pass {number}: {read:,} characters")
                yield block
            tell(f"pass {number}: {read:,} characters, all of them")

        return replace(self, blocks=blocks)


def find_documents(section: TokenData, folder: Path) -> Documents:
    """Find the text of a contract, relative to `folder`.

    Raises:
        DataMistake: there is none, it is not in the encoding, a document holds the document
            separator, or there are no sources to mix.
    """
    if section.text:
        return _of_column(section, folder)
    if (folder / section.path).is_dir():
        return _of_folder(section, folder)
    if isinstance(section.sampling, Mixture):
        raise no_sources(section, "one text")
    return _of_file(section, folder)


def document_rows(section: TokenData, source: SourceFile) -> tuple[Integers, list[SourceSize]]:
    """Table rows that are documents, in file order or, with mixed sources, grouped by source; and
    these sources, whose names are cells cleaned by default."""
    # Readers differ on empty fields: "" or null.
    written = source.frame[section.text].replace("", None).is_not_null()
    rows = written.arg_true().cast(pl.Int64).to_numpy()
    if not isinstance(section.sampling, Mixture):
        return rows, []
    cells = Cleaning.of(TableData()).cells(source.frame[section.sampling.column])[rows]
    names, codes = source_codes(cells, "document")
    sizes = np.bincount(codes, minlength=len(names)).tolist()
    return rows[np.argsort(codes, kind="stable")], list(map(SourceSize, names, sizes))


def no_sources(section: TokenData, found: str) -> DataMistake:
    """The error for a text without sources to mix."""
    return DataMistake(
        Problem(
            "there are no sources to mix",
            path="data.sampling.kind",
            found=found,
            expected="a folder of texts, in which each file or folder is a source, or a table of "
            "texts with a column of sources",
            fix="put the texts of each source into a folder of its own, or remove sampling",
            place=Place(section.path),
        )
    )


def _of_file(section: TokenData, folder: Path) -> Documents:
    file = folder / section.path
    version = _checked(file, section.path, section)
    return Documents(
        (version,), lambda: text_blocks(file, section.path, section.reading), several=False
    )


def _of_folder(section: TokenData, folder: Path) -> Documents:
    place = folder / section.path
    there = [child.relative_to(place) for child in place.rglob("*") if child.is_file()]
    inside = [name for name in there if not is_aside(name.as_posix())]
    names = sorted(name.as_posix() for name in inside if name.suffix.lower() in _SUFFIXES)
    if not names:
        raise DataMistake(_no_texts(inside, len(there) - len(inside), section.path))
    check_inside(place, [place / name for name in names], section.path, "data.path")
    written = [f"{section.path.rstrip('/')}/{name}" for name in names]
    versions = tuple(_checked(folder / name, name, section) for name in written)
    # Sorting by name keeps the files of a folder together.
    outermost = groupby(names, lambda name: name.partition("/")[0])
    sources = tuple(SourceSize(name, len(list(files))) for name, files in outermost)

    def blocks() -> Iterator[str]:
        for name in written:
            for block in text_blocks(folder / name, name, section.reading):
                yield _without_end(block, name)
            yield END

    mixed = isinstance(section.sampling, Mixture)
    return Documents(versions, blocks, several=True, sources=sources if mixed else ())


def _no_texts(inside: Sequence[Path], aside: int, written: str) -> Problem:
    """The problem of a folder without texts, with its contents; `aside` is the number of skipped
    files."""
    suffixes = [name.suffix.lower() for name in inside]
    counts = Counter(suffixes).most_common()
    shown = [f"{many(count, 'file')} {suffix or 'without an ending'}" for suffix, count in counts]
    if aside:
        shown.append(f"{many(aside, 'file')} skipped: the name or folder begins with _ or .")
    fix = "name a text, or a table of texts with its column in data.text"
    message = "the folder holds no texts"
    if any(suffix in IMAGES for suffix in suffixes):
        message = "the folder holds unlabelled images, but no texts"
        fix = (
            "of images, put those of each class into a folder with its name (cat/1.png), or name "
            "a table with a column of paths and a column of classes; kind: images reads both"
        )
    return Problem(
        message,
        path="data.path",
        found=some(shown) or "no file",
        expected=f"files that end in {', '.join(_SUFFIXES)}, or a folder of images for each class",
        fix=fix,
        place=Place(written),
    )


def _of_column(section: TokenData, folder: Path) -> Documents:
    source = read_source(section.path, folder, reading=section.reading)
    _check_columns(section, source)
    rows, sources = document_rows(section, source)
    if not len(rows):
        raise DataMistake(
            Problem(
                "no row has a text",
                path="data.text",
                found=section.text,
                fix="name another column",
                place=source.place(),
            )
        )
    texts = source.frame[section.text]
    count = len(texts) - len(rows)
    notes = (f"{many(count, 'row')} without a text excluded",) if count else ()

    def blocks() -> Iterator[str]:
        for start in range(0, len(rows), _BLOCK_ROWS):
            some_rows = rows[start : start + _BLOCK_ROWS]
            for row, text in zip(some_rows.tolist(), texts.gather(some_rows), strict=True):
                yield _without_end(text, source.place(row).file) + END

    return Documents(source.files, blocks, several=True, notes=notes, sources=tuple(sources))


def _check_columns(section: TokenData, source: SourceFile) -> None:
    schema = source.frame.schema
    texts = [name for name, kind in schema.items() if kind == pl.String]
    wanted = [("data.text", section.text, "of texts ", texts)]
    if isinstance(section.sampling, Mixture):
        column = section.sampling.column
        wanted.append(("data.sampling.column", column, "", list(schema)))
    problems = [
        Problem(
            f"there is no column {kind}{name!r}",
            path=path,
            found=name,
            expected=f"one of: {some(names, 12)}" if names else "a column of text",
            fix=f"did you mean {near!r}?"
            if (near := nearest_option(name, names))
            else f"name one of {quoted(names)}"
            if names
            else "name a table with such a column",
            place=source.place(),
        )
        for path, name, kind, names in wanted
        if name not in names
    ]
    if problems:
        raise DataMistake(problems)


def _checked(file: Path, written: str, section: TokenData) -> FileVersion:
    check_file(file, written, "data.path")
    check_content(file, "text", written, section.reading)
    size = file.stat().st_size
    check_size(size, written, section.reading)
    sha256 = hash_file(file)
    return FileVersion(written, sha256, size, 0, file_sha256=sha256)


def _without_end(text: str, written: str) -> str:
    if END not in text:
        return text
    raise DataMistake(
        Problem(
            "a document contains the document separator",
            path="data.path",
            found="U+001E",
            fix="remove the mark from the texts",
            place=Place(written),
        )
    )


@final
@dataclass(frozen=True, slots=True)
class Chunks:
    """Chunks in document order: `documents` [P] is the document of each, `offsets` [P] its start in
    the document, `lengths` [P] its number of inputs, each followed by the token that it predicts.
    `cut` documents were truncated, or excluded, by a total of `lost` tokens."""

    documents: Integers
    offsets: Integers
    lengths: Integers
    cut: int
    lost: int


def cut_documents(lengths: Sequence[int] | Integers, context: int, long: LongDocuments) -> Chunks:
    """Split documents of `lengths` tokens into chunks of at most `context` inputs. A document of
    one token predicts nothing and has no chunk, nor has an excluded one."""
    inputs = np.maximum(np.asarray(lengths, dtype=np.int64) - 1, 0)
    over = inputs > context
    kept = np.minimum(inputs, context) if long == "cut" else inputs
    if long == "exclude":
        kept = np.where(over, 0, inputs)
    count = -(-kept // context)
    documents = np.repeat(np.arange(len(kept)), count)
    offsets = count_within(count) * context
    return Chunks(
        documents=documents,
        offsets=offsets,
        lengths=np.minimum(context, kept[documents] - offsets),
        cut=int(over.sum()) if long != "split" else 0,
        lost=int((inputs - kept).sum()),
    )


def count_within(counts: Integers) -> Integers:
    """0, 1, ... up to each count, one after the other."""
    ends = np.cumsum(counts)
    return np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
