"""Delta tables: the files of the newest version, by the transaction log.

A folder of a Delta table also holds files that are no longer part of it. Which ones are is what the
log says: `_delta_log/` holds a JSON file of actions for each commit and now and then a checkpoint,
a Parquet file of all actions so far (github.com/delta-io/delta, PROTOCOL.md, sections "Actions" and
"Checkpoints"). Read are tables of whole Parquet files; what needs more of its readers is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final
from urllib.parse import unquote

import polars as pl

from trainwright.contract.sections.data.sources import USUAL, Reading
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.files import Json
from trainwright.data.base.messages import quoted
from trainwright.data.formats.file_format import DELTA_LOG, damaged_file
from trainwright.data.formats.parquet_sizes import check_parquet
from trainwright.data.sources.cache import Tables
from trainwright.data.sources.folders import Parts, check_inside
from trainwright.data.sources.local_files import LocalFile
from trainwright.data.sources.source_file import Partition, SourcePart

_COMMIT = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint(?:\.[0-9]{10}\.([0-9]{10}))?\.parquet")
_HARMLESS = frozenset({"timestampNtz", "vacuumProtocolCheck"})
"""What tables may ask of their readers that changes nothing in how their files are read."""


@final
@dataclass(frozen=True, slots=True)
class DeltaLog:
    """The newest version of a table: its number, and its files by their names inside the folder,
    each with the values of its partition."""

    version: int
    files: Mapping[str, Mapping[str, str | None]]


@final
@dataclass(frozen=True, slots=True)
class DeltaTable:
    """The rows of the newest version; `written` is what the contract calls the folder, at
    `path`."""

    written: str
    folder: Path
    path: str
    reading: Reading
    tables: Tables

    def parts(self) -> tuple[SourcePart, ...]:
        """The rows of each file, in the order of their names.

        Raises:
            DataMistake: the log is not whole, or asks for what is not done here, or a file is not
                as it says.
        """
        place = self.folder / self.written
        files = read_log(place, self.written, self.path).files
        check_inside(place, [place / name for name in files], self.written, self.path)
        sources = [
            Partition(self._file(place, name), values, self.path)
            if values
            else self._file(place, name)
            for name, values in sorted(files.items())
        ]
        return Parts(tuple(sources), self.path).parts()

    def _file(self, place: Path, name: str) -> LocalFile:
        written = f"{self.written.rstrip('/')}/{name}"
        return LocalFile(place / name, written, self.path, self.reading, self.tables)


def read_log(place: Path, written: str, path: str) -> DeltaLog:
    """The newest version of the table in the folder `place`, which a contract calls `written` at
    `path`.

    Raises:
        DataMistake: as `DeltaTable.parts`.
    """
    version, logs = _newest(place, written)
    try:
        files, protocol, about = _replayed(logs, written)
        refused = _refused(protocol, about, list(files.values()))
        found = {
            unquote(name): _mapping(added.get("partitionValues")) for name, added in files.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise damaged_file(
            f"{written}/{DELTA_LOG}", "log of the Delta table", str(error)
        ) from error
    if refused or not found:
        raise DataMistake(
            Problem(
                "the Delta table asks for what is not done here"
                if refused
                else "the Delta table has no rows",
                path=path,
                found=refused or f"version {version} without a file",
                expected="whole files of Parquet, and which of them are part of the table",
                fix="write the version out as Parquet and name that, or give it from Python as a "
                "frame: polars.read_delta",
                place=Place(written),
            )
        )
    return DeltaLog(version, found)


def _replayed(logs: Iterable[Path], written: str) -> tuple[dict[str, Json], Json, Json]:
    """What is left of all actions: the files by name, the protocol and the metadata."""
    files: dict[str, Json] = {}
    protocol: Json = {}
    about: Json = {}
    for log in logs:
        actions = list(_actions(log, written))
        # The actions of one version have no order: a file may be removed and added anew.
        for action in actions:
            if (removed := action.get("remove")) is not None:
                files.pop(str(removed["path"]), None)
        for action in actions:
            if (added := action.get("add")) is not None:
                files[str(added["path"])] = added
            protocol = action.get("protocol") or protocol
            about = action.get("metaData") or about
    return files, protocol, about


def _newest(place: Path, written: str) -> tuple[int, list[Path]]:
    """The number of the newest version, and the files of the log that make it, in their order."""
    names = sorted(child.name for child in (place / DELTA_LOG).iterdir())
    commits = {int(match[1]): match[0] for name in names if (match := _COMMIT.fullmatch(name))}
    checkpoints: dict[int, list[str]] = {}
    whole = -1
    for name in names:
        if match := _CHECKPOINT.fullmatch(name):
            parts = checkpoints.setdefault(int(match[1]), [])
            parts.append(name)
            whole = max(whole, int(match[1])) if len(parts) == int(match[2] or 1) else whole
    newest = max(commits, default=whole)
    wanted = range(whole + 1, newest + 1)
    if newest < 0 or (lacking := [number for number in wanted if number not in commits]):
        raise damaged_file(
            f"{written}/{DELTA_LOG}",
            "log of the Delta table",
            f"no commit {lacking[0]}" if newest >= 0 else "no commit",
        )
    found = [*checkpoints.get(whole, []), *(commits[number] for number in wanted)]
    return max(newest, whole), [place / DELTA_LOG / name for name in found]


def _actions(log: Path, written: str) -> Iterator[Json]:
    try:
        if log.suffix == ".parquet":
            check_parquet(log, f"{written}/{DELTA_LOG}/{log.name}", USUAL)
            columns = ["add", "metaData", "protocol"]
            yield from pl.read_parquet(log, columns=columns).iter_rows(named=True)
            return
        with log.open(encoding="utf-8") as stream:
            yield from (json.loads(line) for line in stream if line.strip())
    except (OSError, ValueError, RecursionError, pl.exceptions.PolarsError) as error:
        raise damaged_file(f"{written}/{DELTA_LOG}/{log.name}", "log", str(error)) from error


def _refused(protocol: Json, about: Json, files: list[Json]) -> str:
    """What a table asks of its readers beside reading its files; empty if that is nothing."""
    version = int(protocol["minReaderVersion"])
    features = set(protocol.get("readerFeatures") or ()) - _HARMLESS
    if version == 2:
        features = {"columnMapping"}
    settings = _mapping(about.get("configuration"))
    if settings.get("delta.columnMapping.mode", "none") == "none":
        features -= {"columnMapping"}
    if not any(file.get("deletionVector") for file in files):
        features -= {"deletionVectors"}
    if features or version > 3:
        return quoted(sorted(features)) or f"version {version} of the protocol"
    provider = str(about["format"]["provider"])
    elsewhere = [name for file in files if "://" in (name := str(file["path"]))]
    if elsewhere:
        return "files that lie elsewhere"
    return "" if provider == "parquet" else f"files of {provider}"


def _mapping(value: Json) -> dict[str, str | None]:
    """A map from text to text, as JSON or as Parquet holds it; an empty value is a missing one."""
    pairs = (
        value.items() if isinstance(value, dict) else [(p["key"], p["value"]) for p in value or ()]
    )
    return {str(key): None if item in (None, "") else str(item) for key, item in pairs}
