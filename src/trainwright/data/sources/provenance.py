"""Revisions of the inputs by data versioning tools: DVC, Delta and lakeFS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, final

from trainwright.contract.reading.yaml_reader import MAX_BYTES, read_yaml
from trainwright.core.errors import Mistake
from trainwright.core.files import Json
from trainwright.data.formats.file_format import is_delta
from trainwright.data.sources.source_file import FileVersion

_DVC_HASHES = ("md5", "etag", "checksum")
_LAKE_FS = re.compile(r"lakefs://([^/]+)/([^/]+)/")


@final
@dataclass(frozen=True, slots=True)
class Revision:
    """What a tool calls the state of a path. `note` says where the path is not in that state."""

    tool: Literal["dvc", "delta", "lakefs"]
    path: str
    revision: str
    note: str = ""

    def to_json(self) -> Json:
        """The fields by name."""
        return asdict(self)


def find_revisions(files: Sequence[FileVersion], folder: Path) -> tuple[Revision, ...]:
    """The revisions of files named relative to `folder`: the hash in a `.dvc` file beside a file or
    beside its folder, the newest version of a Delta table in whose folder it lies, the branch or
    commit of a lakeFS URL. Nothing is asked of a server."""
    found: dict[tuple[str, str], Revision] = {}
    for file in files:
        for revision in _of_file(file, folder):
            found.setdefault((revision.tool, revision.path), revision)
    for revision in _of_tables(files, folder):
        found[revision.tool, revision.path] = revision
    return tuple(found.values())


def _of_file(file: FileVersion, folder: Path) -> Iterator[Revision]:
    if match := _LAKE_FS.match(file.path):
        yield Revision("lakefs", f"lakefs://{match[1]}", match[2])
        return
    if "://" in file.path:
        return
    place = folder / file.path
    for tracked in (place, place.parent):
        note = tracked.with_name(f"{tracked.name}.dvc")
        if note.is_file():
            yield from _dvc(note, tracked, file)


def _of_tables(files: Sequence[FileVersion], folder: Path) -> Iterator[Revision]:
    """Of the Delta tables in whose folders the files lie."""
    places = [folder / file.path for file in files if "://" not in file.path]
    for table in dict.fromkeys(parent for place in places for parent in place.parents):
        if not is_delta(table):
            continue
        from trainwright.data.sources.delta import read_log

        try:
            log = read_log(table, _written(table, folder), "data.path")
        except (OSError, Mistake):
            continue
        here = {str(one.relative_to(table)) for one in places if one.is_relative_to(table)}
        own = len(here & set(log.files))
        note = f"{own} of its {len(log.files)} files were read, and {len(here) - own} others"
        whole = here == set(log.files)
        yield Revision("delta", _written(table, folder), str(log.version), "" if whole else note)


def _dvc(note: Path, tracked: Path, file: FileVersion) -> Iterator[Revision]:
    """A `.dvc` file is YAML with what it tracks under `outs`; what it was made of or from, and with
    other hashes, may stand above that (dvc.org, ".dvc files"). Of a file that is written otherwise
    nothing is said."""
    output = _first_output(note)
    found = next((str(output[key]) for key in _DVC_HASHES if output.get(key)), "")
    if not found:
        return
    size = output.get("size")
    other = tracked.is_file() and isinstance(size, int) and size != file.size_bytes
    said = f"{size:,} bytes there, {file.size_bytes:,} here" if other else ""
    yield Revision("dvc", file.path if tracked.is_file() else tracked.name, found, said)


def _first_output(note: Path) -> Json:
    try:
        with note.open("rb") as stream:
            value = read_yaml(stream.read(MAX_BYTES + 1), str(note)).value
    except (OSError, Mistake):
        return {}
    match value:
        case {"outs": [dict() as first, *_]}:
            return first
        case _:
            return {}


def _written(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
