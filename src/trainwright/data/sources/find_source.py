"""Resolution of the contract's data paths, and their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.sources import FRAME, USUAL, Reading, Sql
from trainwright.core.hashing import hash_value
from trainwright.data.base.messages import some
from trainwright.data.formats.file_format import is_delta, is_part
from trainwright.data.sources.cache import Tables, open_cache
from trainwright.data.sources.frames import NO_FRAMES, Frame, FrameRows
from trainwright.data.sources.hive_partitions import is_partition, with_partition
from trainwright.data.sources.local_files import LocalFile
from trainwright.data.sources.path_patterns import is_pattern
from trainwright.data.sources.remote_store import is_remote
from trainwright.data.sources.source_file import FileVersion, Source, SourceFile, SourcePart


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
        from trainwright.data.sources.folders import files_as_parts, parts_of_pattern

        names = parts_of_pattern(written, folder, path)
        return files_as_parts(names, folder, path, reading, tables)
    if is_there and place.is_dir():
        return _find_in_folder(written, path, around, tables)
    return with_partition(LocalFile(place, written, path, reading, tables), written, path)


def _find_in_folder(written: str, path: str, around: Surroundings, tables: Tables) -> Source:
    """The source that a folder is."""
    from trainwright.data.sources.delta import DeltaTable
    from trainwright.data.sources.folders import files_as_parts, parts_of_folder
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
