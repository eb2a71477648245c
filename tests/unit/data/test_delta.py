"""Delta tables: the rows of the newest version, and no other file of the folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from trainwright.core.errors import DataMistake
from trainwright.data.sources.delta import DeltaLog
from trainwright.data.sources.find_source import read_source
from trainwright.data.sources.provenance import find_revisions

Json = dict[str, Any]
PROTOCOL: Json = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
ABOUT: Json = {
    "metaData": {
        "id": "1",
        "format": {"provider": "parquet"},
        "partitionColumns": ["year"],
        "configuration": {},
    }
}


def added(name: str, **other: object) -> Json:
    year = name.partition("year=")[2].partition("/")[0]
    return {"add": {"path": name, "partitionValues": {"year": year}, "size": 1, **other}}


def removed(name: str) -> Json:
    return {"remove": {"path": name, "dataChange": True}}


def commit(table: Path, number: int, *actions: Json) -> None:
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    text = "\n".join(json.dumps(action) for action in actions)
    (log / f"{number:020d}.json").write_text(text)


def write(table: Path, name: str, values: list[int]) -> None:
    (table / name).parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame({"a": values}).write_parquet(table / name)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three commits: two files, another one in place of the first, and a note."""
    found = tmp_path / "lake"
    for name, values in {
        "year=2023/one.parquet": [1],
        "year=2023/two three.parquet": [2, 3],
        "year=2024/four.parquet": [4],
        "left.parquet": [9],
    }.items():
        write(found, name, values)
    commit(
        found, 0, PROTOCOL, ABOUT, added("year=2023/one.parquet"), added("year=2024/four.parquet")
    )
    commit(found, 1, removed("year=2023/one.parquet"), added("year=2023/two%20three.parquet"))
    commit(found, 2, {"commitInfo": {"operation": "NOTHING"}})
    return found


def checkpoint(table: Path, number: int, names: list[str]) -> None:
    """As writers of checkpoints do: a Parquet file whose rows hold one action each."""
    empty = {"add": None, "metaData": None, "protocol": None, "remove": None}
    rows = [{**empty, **PROTOCOL}]
    rows += [{**empty, "metaData": {**ABOUT["metaData"], "configuration": []}}]
    for name in names:
        year = name.partition("year=")[2].partition("/")[0]
        pairs = [{"key": "year", "value": year}]
        rows += [{**empty, "add": {"path": name, "partitionValues": pairs, "size": 1}}]
    rows += [{**empty, "remove": {"path": "year=2023/one.parquet"}}]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    frame.write_parquet(table / "_delta_log" / f"{number:020d}.checkpoint.parquet")


def test_the_newest_version_is_read_and_no_other_file(table: Path) -> None:
    source = read_source("lake", table.parent)
    assert source.frame.rows() == [(2, "2023"), (3, "2023"), (4, "2024")]
    assert [file.path for file in source.files] == [
        "lake/year=2023/two three.parquet",
        "lake/year=2024/four.parquet",
    ]
    (revision,) = find_revisions(source.files, table.parent)
    assert (revision.tool, revision.path, revision.revision) == ("delta", "lake", "2")
    assert revision.note == ""


def test_a_pattern_reads_what_it_names_and_says_so(table: Path) -> None:
    source = read_source("lake/year=*/*.parquet", table.parent)
    assert source.frame.height == 4
    (revision,) = find_revisions(source.files, table.parent)
    assert revision.note == "2 of its 2 files were read, and 1 others"
    (one,) = find_revisions(source.files[2:], table.parent)
    assert one.note == "1 of its 2 files were read, and 0 others"


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_checkpoint_stands_for_the_commits_before_it(kept: int, table: Path) -> None:
    checkpoint(table, 1, ["year=2023/two%20three.parquet", "year=2024/four.parquet"])
    for number in range(kept):
        (table / "_delta_log" / f"{number:020d}.json").unlink()
    write(table, "year=2025/five.parquet", [5])
    commit(table, 3, added("year=2025/five.parquet"), removed("year=2024/four.parquet"))
    assert read_source("lake", table.parent).frame["a"].to_list() == [2, 3, 5]


def test_a_later_version_is_other_data(table: Path) -> None:
    first = read_source("lake", table.parent).version.sha256
    commit(table, 3, removed("year=2024/four.parquet"))
    assert read_source("lake", table.parent).version.sha256 != first


def needs(**protocol: object) -> Json:
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **protocol}}


def of_mode(mode: str) -> Json:
    settings = {"delta.columnMapping.mode": mode}
    return {"metaData": {**ABOUT["metaData"], "configuration": settings}}


REFUSED: dict[str, list[Json]] = {
    "'deletionVectors'": [
        needs(readerFeatures=["deletionVectors"]),
        added("year=2024/four.parquet", deletionVector={"storageType": "u"}),
    ],
    "'columnMapping'": [needs(minReaderVersion=2), of_mode("name")],
    "'variantType'": [needs(readerFeatures=["variantType", "timestampNtz"])],
    "version 4 of the protocol": [needs(minReaderVersion=4)],
    "files that lie elsewhere": [added("s3://bucket/x.parquet")],
    "files of orc": [{"metaData": {**ABOUT["metaData"], "format": {"provider": "orc"}}}],
    "version 3 without a file": [
        removed("year=2023/two%20three.parquet"),
        removed("year=2024/four.parquet"),
    ],
}


@pytest.mark.parametrize("found", REFUSED)
def test_what_asks_for_more_is_refused(found: str, table: Path) -> None:
    commit(table, 3, *REFUSED[found])
    with pytest.raises(DataMistake) as caught:
        read_source("lake", table.parent)
    (problem,) = caught.value.problems
    assert (problem.found, problem.path, problem.place.file) == (found, "data.path", "lake")


@pytest.mark.parametrize(
    "asked",
    [
        needs(readerFeatures=["deletionVectors", "timestampNtz", "vacuumProtocolCheck"]),
        needs(minReaderVersion=2),
    ],
)
def test_what_is_only_allowed_is_no_reason(asked: Json, table: Path) -> None:
    commit(table, 3, asked)
    assert read_source("lake", table.parent).frame.height == 3


def lose(number: int) -> Callable[[Path], None]:
    return lambda table: (table / "_delta_log" / f"{number:020d}.json").unlink()


def say(text: str) -> Callable[[Path], None]:
    def write(table: Path) -> None:
        (table / "_delta_log" / f"{1:020d}.json").write_text(text)

    return write


BROKEN: dict[str, Callable[[Path], None]] = {
    "no first commit": lose(0),
    "no commit between": lose(1),
    "no JSON": say("{"),
    "no object": say("[1]"),
    "no path": say('{"add": {}}'),
    "no action": say('{"add": 3}'),
    "nested": say("[" * 1000),
    "no text": lambda table: (table / "_delta_log" / f"{1:020d}.json").write_bytes(b"\xff\xfe"),
    "odd checkpoint": lambda table: (
        table / "_delta_log" / f"{1:020d}.checkpoint.parquet"
    ).write_bytes(b"PAR1"),
    "no file": lambda table: (table / "year=2024/four.parquet").unlink(),
    "empty": lambda table: [path.unlink() for path in (table / "_delta_log").iterdir()].clear(),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_log_that_is_not_whole_is_refused(what: str, table: Path) -> None:
    BROKEN[what](table)
    with pytest.raises(DataMistake):
        read_source("lake", table.parent)


def test_a_file_out_of_the_folder_is_refused(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(table.parent, "other.parquet", [7])
    log = DeltaLog(3, {"../other.parquet": {}})
    monkeypatch.setattr("trainwright.data.sources.delta.read_log", lambda *_: log)
    with pytest.raises(DataMistake, match="leads out of the folder"):
        read_source("lake", table.parent)


def test_a_delta_table_in_a_store_is_refused(table: Path) -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(DataMistake, match="read on this machine only"):
        read_source(f"file://{table}", table.parent)


def test_the_actions_of_a_version_have_no_order(table: Path) -> None:
    again = added("year=2024/four.parquet", dataChange=True)
    commit(table, 3, again, removed("year=2024/four.parquet"))
    assert sorted(read_source("lake", table.parent).frame["a"].to_list()) == [2, 3, 4]
