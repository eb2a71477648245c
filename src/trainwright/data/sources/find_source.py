"""Resolution of the contract's data paths, their rows, and the columns that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np
import polars as pl

from trainwright.contract.key_paths import as_key
from trainwright.contract.sections.data.sources import FRAME, USUAL, Reading, Sql
from trainwright.contract.sections.data.split import split_columns
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import Place, Problem
from trainwright.core.files import hash_value
from trainwright.data.base.inputs import PartName
from trainwright.data.base.messages import nearest_option, quoted, some
from trainwright.data.formats.file_format import is_delta, is_part, is_untyped, known_format
from trainwright.data.sources.cache import Tables, open_cache
from trainwright.data.sources.folders import (
    files_as_parts,
    is_pattern,
    parts_of_folder,
    parts_of_pattern,
)
from trainwright.data.sources.frames import NO_FRAMES, Frame, FrameRows
from trainwright.data.sources.local_files import LocalFile
from trainwright.data.sources.remote_store import is_remote
from trainwright.data.sources.source_file import (
    FileVersion,
    Source,
    SourceFile,
    SourcePart,
    is_partition,
    with_partition,
)

_MOST_ABOVE = 20


def name_problems(section: TableData, sources: Mapping[PartName, SourceFile]) -> list[Problem]:
    """Problems of contract columns absent from the training file, and of training columns absent
    from other files."""
    source = sources["train"]
    names = source.frame.columns
    listed = enumerate(section.target_columns)
    wanted = [(f"data.target.{at}", name) for at, name in listed]
    if isinstance(section.target, str):
        wanted = [("data.target", section.target)]
    wanted += [(f"data.exclude.{i}", name) for i, name in enumerate(section.exclude)]
    wanted += [(f"data.columns.{as_key(name)}", name) for name in section.columns]
    wanted += [(f"data.reading.numbers.{as_key(name)}", name) for name in section.reading.numbers]
    wanted += [(f"data.split.{field}", name) for field, name in split_columns(section.split)]
    wanted += [("data.weight", section.weight)] if section.weight else []
    problems = [
        absent_column(path, name, names, source.place())
        for path, name in wanted
        if name not in names
    ]
    if section.target_columns[0] not in names and (above := _lines_above(section, source)):
        fix = (
            f"line {above + 1} looks like the header: --set data.reading.skip_lines={above} leaves "
            "out the lines above it"
        )
        problems[0] = replace(problems[0], fix=fix)
    problems += _useless_numbers(section, source)
    unused = {section.weight, *section.exclude}
    unused |= {name for name, column in section.columns.items() if column.kind == "ignored"}
    needed = [name for name in names if name not in unused]
    for part, other in sources.items():
        there = set(other.frame.columns)
        lacking = [name for name in needed if name not in there]
        if part != "train" and lacking:
            problems.append(
                Problem(
                    f"the {part} file lacks columns of the training file",
                    path=f"data.{'val' if part == 'validation' else 'test'}_path",
                    found=f"no {quoted(lacking)}",
                    expected=f"the columns of {source.version.path}",
                    fix="add the columns, or list them in data.exclude",
                    place=other.place(),
                )
            )
    return problems


def _lines_above(section: TableData, source: SourceFile) -> int:
    """The lines above the first of a text file that holds the target's name, among its first; 0
    where none does."""
    if not section.reading.header or source.parts or not is_untyped(source.version.path):
        return 0
    first = source.frame.head(_MOST_ABOVE)
    holds = first.select(pl.any_horizontal(pl.all().str.strip_chars() == section.target_columns[0]))
    rows = holds.to_series().arg_true()
    line = int(source.lines[rows[0]]) if len(rows) else 1
    return line - 1 if line <= _MOST_ABOVE else 0


def _useless_numbers(section: TableData, source: SourceFile) -> list[Problem]:
    """The problems of numbers that are to be rewritten where nothing is: outside files, and in
    columns that are no text."""
    if not section.reading.numbers:
        return []
    if any(known_format(file.path) for file in source.files):
        types = source.frame.schema
        return [
            Problem(
                f"the column {name!r} is no text: its type in the file says what its numbers are",
                path=f"data.reading.numbers.{as_key(name)}",
                found=str(types[name]),
                expected="text",
                fix="leave it out of data.reading.numbers",
                place=source.place(),
            )
            for name in section.reading.numbers
            if name in types and types[name] != pl.String
        ]
    return [
        Problem(
            "only the numbers of files are rewritten",
            path="data.reading.numbers",
            found=source.version.path,
            expected="a file",
            fix="leave data.reading.numbers out, and give the numbers as 1234.5",
            place=source.place(),
        )
    ]


def absent_column(path: str, name: str, names: list[str], place: Place) -> Problem:
    """Problem of a column named at `path` that does not exist."""
    near = nearest_option(name, names)
    return Problem(
        f"there is no column {name!r}",
        path=path,
        found=name,
        expected=f"one of: {some(names, 12)}",
        fix=f"did you mean {near!r}?" if near else "name one of the columns",
        place=place,
    )


@final
@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a contract's paths are relative to: its folder, and the frames that were given beside
    it; and how files are read."""

    folder: Path
    reading: Reading
    frames: Mapping[str, Frame]


def find_source(written: str, path: str, around: Surroundings) -> Source:
    """The source that a contract calls `written` at `path`: a frame, a URL, a pattern, a folder or
    a file.

    Raises:
        DataMistake: a folder or pattern means no files that can be read.
    """
    # Imported below: most data are one file.
    folder, reading = around.folder, around.reading
    if written.startswith(FRAME):
        return FrameRows(written, path, around.frames)
    tables = open_cache(reading.cache, folder)
    if is_remote(written):
        from trainwright.data.sources.remote_tables import RemoteFiles

        return RemoteFiles(written, path, reading, tables)
    place = folder / written
    is_there = _is_there(place)
    if is_pattern(written) and not is_there:
        names = parts_of_pattern(written, folder, path)
        return files_as_parts(names, folder, path, reading, tables)
    if is_there and place.is_dir():
        return _find_in_folder(written, path, around, tables)
    return with_partition(LocalFile(place, written, path, reading, tables), written, path)


def _find_in_folder(written: str, path: str, around: Surroundings, tables: Tables) -> Source:
    """The source that a folder is."""
    from trainwright.data.sources.delta import DeltaTable
    from trainwright.data.sources.hf_dataset import SavedDataset, is_saved

    folder, reading = around.folder, around.reading
    if is_delta(folder / written):
        return DeltaTable(written, folder, path, reading, tables)
    if is_saved(folder / written):
        return SavedDataset(written, folder, path, reading, tables)
    names = parts_of_folder(written, folder, path)
    return files_as_parts(names, folder, path, reading, tables)


def holds_table(place: Path) -> bool:
    """Whether a folder is read as a table."""
    from trainwright.data.sources.hf_dataset import is_saved

    return (
        is_delta(place)
        or is_saved(place)
        or any(
            is_partition(child.name) if child.is_dir() else is_part(child.name)
            for child in place.iterdir()
        )
    )


def _is_there(place: Path) -> bool:
    try:
        return place.exists()
    except (OSError, ValueError):
        return False


def read_source(
    written: str,
    folder: Path,
    path: str = "data.path",
    reading: Reading = USUAL,
    frames: Mapping[str, Frame] = NO_FRAMES,
) -> SourceFile:
    """Read what a contract calls `written`, relative to `folder`.

    `path` is the contract path to blame. Nothing is unpickled, and no parser sees bytes that do
    not begin as the file's suffix says.

    Raises:
        DataMistake: it is missing, empty or not what its name says; all problems of its structure
            at once. MissingExtra: the package that reads from there is not installed.
    """
    return collected(written, find_source(written, path, Surroundings(folder, reading, frames)))


def read_query(section: Sql, folder: Path, reading: Reading) -> SourceFile:
    """The rows of a query.

    Raises:
        DataMistake: the database cannot be reached or refuses it. MissingExtra: as `read_source`.
    """
    # Imported here: most data are files.
    from trainwright.data.sources.sql import SqlQuery

    source = SqlQuery(section, folder, reading)
    return collected(section.url, source)


def collected(written: str, source: Source) -> SourceFile:
    """Concatenate the parts of a source; columns without a name get one."""
    parts = [replace(part, frame=_named(part.frame)) for part in source.parts()]
    versions = tuple(_version(part) for part in parts)
    if len(parts) == 1:
        return SourceFile(parts[0].frame, versions[0], parts[0].lines)
    frame = pl.concat([part.frame for part in parts], rechunk=False)
    whole = FileVersion(
        written,
        hash_value([version.sha256 for version in versions]),
        sum(version.size_bytes for version in versions),
        frame.height,
    )
    return SourceFile(frame, whole, np.concatenate([part.lines for part in parts]), versions)


def _named(frame: pl.DataFrame) -> pl.DataFrame:
    """As the readers of text name them: polars takes a blank name for none, and makes up another
    each time."""
    blank = [at for at, name in enumerate(frame.columns) if not name.strip()]
    names = list(frame.columns)
    for at in blank:
        number = 1
        while (free := f"column_{at + 1}" + f"_{number}" * (number > 1)) in names:
            number += 1
        names[at] = free
    return frame.rename(dict(zip(frame.columns, names, strict=True))) if blank else frame


def _version(part: SourcePart) -> FileVersion:
    return FileVersion(
        part.written,
        part.sha256,
        part.size_bytes,
        part.frame.height,
        part.skipped,
        part.file_sha256,
    )


def skipped_notes(source: SourceFile) -> list[str]:
    """Notes on unreadable records that were skipped, by file."""
    notes = []
    for file in source.files:
        if count := len(file.skipped):
            records = "record" if count == 1 else "records"
            lines = some(list(file.skipped), 5)
            notes.append(f"{count} {records} of {file.path} skipped, not readable: line {lines}")
    return notes
