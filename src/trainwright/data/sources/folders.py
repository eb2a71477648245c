"""Folders and glob patterns, read as one table in name order."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import translate
from itertools import islice
from pathlib import Path, PurePath
from typing import final

from trainwright.contract.sections.data.sources import Reading
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.limits import MOST_PATTERN_ENTRIES
from trainwright.data.base.messages import quoted, some
from trainwright.data.formats.file_format import EXPECTED, is_aside, is_part, known_format
from trainwright.data.sources.cache import Tables
from trainwright.data.sources.local_files import LocalFile
from trainwright.data.sources.source_file import Source, SourcePart, is_partition, with_partition

_ANY_FOLDERS = "**"
_MARKS = frozenset("*?[")
_SHOWN = 5
_MOST_LOOKED_AT = 10_000


class TooManyEntriesError(Exception):
    """A pattern leads through more files and folders than are looked at."""


def is_pattern(written: str) -> bool:
    """Whether a path has a mark that stands for other letters."""
    return any(mark in written for mark in _MARKS)


def paths_matching(pattern: str, folder: Path) -> list[str]:
    """The files that match, as the pattern would call them, sorted; `**` stands for any folders,
    but for no link to one, and a mark for no dot at the beginning of a name.

    Raises:
        TooManyEntriesError: more than `MOST_PATTERN_ENTRIES` names were compared.
    """
    pieces = PurePath(pattern).parts
    fixed = next((at for at, piece in enumerate(pieces) if is_pattern(piece)), len(pieces))
    start = PurePath(*pieces[:fixed])
    walk = _Walk(folder)
    return sorted({path.as_posix() for path in walk.below(start, pieces[fixed:])})


@dataclass(slots=True)
class _Walk:
    root: Path
    seen: int = 0

    def below(self, at: PurePath, pieces: Sequence[str]) -> Iterator[PurePath]:
        """Files below `at` that match the pieces."""
        if not pieces:
            if (self.root / at).is_file():
                yield at
            return
        first, rest = pieces[0], pieces[1:]
        if first == _ANY_FOLDERS:
            yield from self.below(at, rest or ("*",))
            for entry in self._entries(at):
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                    yield from self.below(at / entry.name, pieces)
        elif is_pattern(first):
            matches = re.compile(translate(first)).match
            for entry in self._entries(at):
                if matches(entry.name) and (entry.name[0] != "." or first[0] == "."):
                    yield from self.below(at / entry.name, rest)
        else:
            yield from self.below(at / first, rest)

    def _entries(self, at: PurePath) -> Iterator[os.DirEntry[str]]:
        """What lies in a folder; nothing in what is none or may not be read."""
        try:
            with os.scandir(self.root / at) as entries:
                for entry in entries:
                    self.seen += 1
                    if self.seen > MOST_PATTERN_ENTRIES:
                        raise TooManyEntriesError
                    yield entry
        except OSError:
            return


def parts_of_folder(written: str, folder: Path, path: str) -> list[str]:
    """The data files in a folder and in its partitions, as the contract would call them, sorted by
    name.

    Files whose names begin with `_` or `.` are notes of the program that wrote the others and stay
    aside, and so do files that are no data, such as a README.

    Raises:
        DataMistake: there are none, a part is a link that leads out of the folder, files stand
            beside partitions, or data lies in other folders below it.
    """
    place = folder / written
    names = _names_in(place, "", written, path)
    if not names:
        inside = sorted(child for child in place.iterdir() if not is_aside(child.name))
        raise DataMistake(_no_parts(written, path, [child.name for child in inside], place))
    check_inside(place, [place / name for name in names], written, path)
    return [f"{written.rstrip('/')}/{name}" for name in sorted(names)]


def _names_in(place: Path, below: str, written: str, path: str) -> list[str]:
    """The files of data in the folder `below` one, and in the folders of its partitions."""
    inside = sorted(child for child in (place / below).iterdir() if not is_aside(child.name))
    names = [child.name for child in inside if child.is_file() and is_part(child.name)]
    folders = [child.name for child in inside if child.is_dir() and is_partition(child.name)]
    if names and folders:
        raise DataMistake(mixed([names[0], *folders], f"{written.rstrip('/')}/{below}", path))
    deeper = [_names_in(place, f"{below}{name}/", written, path) for name in folders]
    return [f"{below}{name}" for name in names] + [name for found in deeper for name in found]


def parts_of_pattern(written: str, folder: Path, path: str) -> list[str]:
    """The files that a pattern means, sorted by name; `**` stands for any folders. What stays aside
    in a folder stays aside here, unless the pattern itself names such files.

    Raises:
        DataMistake: there are none, or one is a link that leads out of the folder of the pattern.
    """
    try:
        found = paths_matching(written, folder)
    except TooManyEntriesError:
        raise DataMistake(_too_wide(written, path)) from None
    names = [name for name in parts_among(found, written) if (folder / name).is_file()]
    if not names:
        raise DataMistake(
            Problem(
                "no file of data has such a name",
                path=path,
                found=f"{len(found)} names" if found else written,
                expected=f"names of {EXPECTED}",
                fix=f"list what is there: ls {folder}",
            )
        )
    base = folder.joinpath(*PurePath(written).parts[: _fixed_pieces(written)])
    check_inside(base, [folder / name for name in names], written, path)
    return names


def _too_wide(written: str, path: str) -> Problem:
    return Problem(
        "the pattern leads through too many files and folders",
        path=path,
        found=f"more than {MOST_PATTERN_ENTRIES:,}",
        expected="a pattern below the folder that holds the parts",
        fix="name more of the path before the first * or **",
        place=Place(written),
    )


def parts_among(found: Iterable[str], pattern: str) -> list[str]:
    """Those of the names that a pattern matched which are files of data."""
    fixed = _fixed_pieces(pattern)

    def below(name: str) -> str:
        return "/".join(PurePath(name).parts[fixed:])

    meant = is_aside(below(pattern))
    return [name for name in found if known_format(name) and (meant or not is_aside(below(name)))]


def _fixed_pieces(pattern: str) -> int:
    """How many pieces at the beginning of a pattern are folders by their own names."""
    pieces = PurePath(pattern).parts
    return next((at for at, piece in enumerate(pieces) if is_pattern(piece)), len(pieces) - 1)


def mixed(names: list[str], written: str, path: str) -> Problem:
    """The problem of a folder that holds both files of data and folders of partitions."""
    return Problem(
        "files of data stand beside folders of partitions",
        path=path,
        found=some(names, _SHOWN),
        expected="all rows in files, or all in partitions",
        fix="move the files into a partition, or name those that belong together by a pattern",
        place=Place(written.rstrip("/")),
    )


@final
@dataclass(frozen=True, slots=True)
class Parts:
    """Several sources with the same columns, one below the other."""

    sources: tuple[Source, ...]
    path: str

    def parts(self) -> tuple[SourcePart, ...]:
        """The parts of all of them, their columns in the order of the first.

        Raises:
            DataMistake: what is wrong with each, or the parts whose columns are others.
        """
        found: list[SourcePart] = []
        problems: list[Problem] = []
        for source in self.sources:
            try:
                found += source.parts()
            except DataMistake as mistake:
                problems += mistake.problems
                if len(problems) > _SHOWN:
                    break
        if not problems:
            problems = _schema_problems(found, self.path)
        if problems:
            raise DataMistake(problems[: _SHOWN + 1])
        names = found[0].frame.columns
        return tuple(replace(part, frame=part.frame.select(names)) for part in found)


def files_as_parts(
    names: list[str], folder: Path, path: str, reading: Reading, tables: Tables
) -> Parts:
    """Files in `folder`, by the names that the contract has for them."""
    kinds = {known_format(name): name for name in reversed(names)}
    if len(kinds) > 1:
        raise DataMistake(
            Problem(
                "the parts are of more than one format",
                path=path,
                found=", ".join(sorted(kinds.values())),
                expected="parts of one format",
                fix="name those of one format by a pattern, for example parts/*.parquet",
            )
        )
    files = [LocalFile(folder / name, name, path, reading, tables) for name in names]
    return Parts(tuple(with_partition(file, file.written, path) for file in files), path)


def check_inside(base: Path, files: list[Path], written: str, path: str) -> None:
    """Raise `DataMistake` for a file that is a link out of `base`: it may lead to any file of the
    machine, and only those below the folder are parts of it."""
    root = base.resolve()
    leading_out = [file for file in files if not file.resolve().is_relative_to(root)]
    if leading_out:
        file = leading_out[0]
        raise DataMistake(
            Problem(
                "a part is a link that leads out of the folder",
                path=path,
                found=f"{file.name} -> {file.resolve()}",
                expected=f"files below {root}",
                fix="copy the file into the folder, or name it by itself",
                place=Place(written),
            )
        )


def _no_parts(written: str, path: str, names: list[str], place: Path) -> Problem:
    below = islice(place.rglob("*"), _MOST_LOOKED_AT)
    ending = next((_ending(file) for file in below if known_format(file.name)), "")
    return Problem(
        "the folder holds no file of data",
        path=path,
        found=some(names, _SHOWN) if names else "nothing",
        expected=f"files of {EXPECTED}",
        fix=f"name them by a pattern: {written.rstrip('/')}/**/*{ending}"
        if ending
        else "name the folder that holds the parts",
        place=Place(written),
    )


def _ending(file: Path) -> str:
    """`.csv`, or `.csv.gz` of a packed file."""
    return "".join(file.suffixes[-1 - (file.suffix in (".gz", ".zst")) :])


def _names_beyond(part: SourcePart, other: SourcePart) -> list[str]:
    """The columns of a part that another one lacks."""
    there = set(other.frame.columns)
    return [name for name in part.frame.columns if name not in there]


def _schema_problems(parts: list[SourcePart], path: str) -> list[Problem]:
    first = parts[0]
    problems = []
    for part in parts[1:]:
        lacking = _names_beyond(first, part)
        unknown = _names_beyond(part, first)
        other = [
            f"{name} {part.frame.schema[name]} instead of {kind}"
            for name, kind in first.frame.schema.items()
            if name not in lacking and part.frame.schema[name] != kind
        ]
        said = [f"no {quoted(lacking)}"] if lacking else []
        said += [f"also {quoted(unknown)}"] if unknown else []
        said += [some(other, _SHOWN)] if other else []
        if said:
            problems.append(
                Problem(
                    "the columns of this part are not those of the first",
                    path=path,
                    found="; ".join(said),
                    expected=f"the columns of {first.written}",
                    fix="write the part again, or name the parts that belong together by a pattern",
                    place=Place(part.written),
                )
            )
    return problems
