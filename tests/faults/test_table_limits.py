"""Tables and queries are held against limits before they are unpacked, or while they are read."""

from __future__ import annotations

import gzip
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import zstandard

from lowered_limits import A_THOUSAND_BYTES, Limited
from trainwright.contract.sections.data.sources import Reading, Sql
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import DataMistake
from trainwright.data.read_table import read_sources
from trainwright.data.sources import local_files, sql
from trainwright.data.sources.find_source import read_source

pytestmark = pytest.mark.row("F-63")

CONTRACT = """\
name: a
task: classification
data:
  {data}
  target: y
model: {{kind: boosting}}
metric: {{name: accuracy}}
"""
ROWS = b"1,0\n2,1\n" * 1000


def table(name: str) -> str:
    """A contract of a table."""
    return CONTRACT.format(data=f"path: {name}")


def csv_gzip(folder: Path) -> str:
    (folder / "a.csv.gz").write_bytes(gzip.compress(b"a,y\n" + ROWS))
    return table("a.csv.gz")


def csv_zstd(folder: Path) -> str:
    (folder / "a.csv.zst").write_bytes(zstandard.compress(b"a,y\n") + zstandard.compress(ROWS))
    return table("a.csv.zst")


def csv_wide(folder: Path) -> str:
    (folder / "a.csv").write_text("a,b,c,y\n1,2,3,0\n4,5,6,1\n")
    return table("a.csv")


def csv_equal_names(folder: Path) -> str:
    """Columns are counted before their names are made different."""
    (folder / "a.csv").write_text("a,a,a,y\n1,2,3,0\n4,5,6,1\n")
    return CONTRACT.format(data="path: a.csv\n  reading: {repeated_names: rename}")


def csv_long_line(folder: Path) -> str:
    (folder / "a.csv").write_text(f"a,y\n{'x' * 500},0\nb,1\n")
    return table("a.csv")


def json_keys(folder: Path) -> str:
    """Each line has a key of its own, so the table has a cell for each pair of lines."""
    lines = "".join(f'{{"c{row}": 1, "y": {row % 2}}}\n' for row in range(100))
    (folder / "a.jsonl").write_text(lines)
    return table("a.jsonl")


def parquet_rows(folder: Path) -> str:
    """A run of one value takes a few bytes for any number of rows."""
    pl.DataFrame({"y": np.zeros(5000, np.int32)}).write_parquet(folder / "a.parquet")
    return table("a.parquet")


def parquet_wide(folder: Path) -> str:
    pl.DataFrame({"a": [1, 2], "b": [3, 4], "y": [0, 1]}).write_parquet(folder / "a.parquet")
    return table("a.parquet")


def parquet_page(folder: Path) -> str:
    """Two long texts, each in a page of its own."""
    from pyarrow import parquet
    from pyarrow import table as arrow_table

    rows = arrow_table({"a": ["x" * 20_000], "y": [0]})
    options = {"compression": "zstd", "use_dictionary": False, "write_statistics": False}
    with parquet.ParquetWriter(folder / "a.parquet", rows.schema, **options) as writer:
        for _ in range(2):
            writer.write_table(rows)
    return table("a.parquet")


def parquet_dictionary(folder: Path, *, categories: bool = False) -> str:
    """A text that stands in the file once, and in 200 rows."""
    import pyarrow
    from pyarrow import parquet

    codes = pyarrow.array(np.zeros(200, np.int32))
    text = pyarrow.DictionaryArray.from_arrays(codes, pyarrow.array(["x" * 1000]))
    rows = pyarrow.table({"a": text, "y": np.arange(200) % 2})
    parquet.write_table(rows, folder / "a.parquet", compression="zstd", store_schema=categories)
    return table("a.parquet")


def parquet_categories(folder: Path) -> str:
    """The same, as categories of Arrow."""
    return parquet_dictionary(folder, categories=True)


def arrow_packed(folder: Path) -> str:
    """Columns of zeros, packed inside the file."""
    pl.DataFrame({"a": np.zeros(5000), "y": np.zeros(5000)}).write_ipc(
        folder / "a.arrow", compression="zstd"
    )
    return table("a.arrow")


def arrow_stream(folder: Path) -> str:
    pl.DataFrame({"a": np.zeros(5000), "y": np.zeros(5000)}).write_ipc_stream(
        folder / "a.arrow", compression="zstd"
    )
    return table("a.arrow")


def arrow_text(folder: Path) -> str:
    rows = pl.DataFrame({"a": ["x" * 20_000] * 2, "y": [0, 1]})
    rows.write_ipc(folder / "a.arrow", compression="zstd", compat_level=pl.CompatLevel.oldest())
    return table("a.arrow")


def arrow_nulls(folder: Path) -> str:
    """Rows of a type that takes no bytes."""
    import pyarrow

    rows = pyarrow.table({"y": pyarrow.nulls(1000)})
    with pyarrow.ipc.new_file(folder / "a.arrow", rows.schema) as stream:
        stream.write_table(rows)
    return table("a.arrow")


def arrow_wide(folder: Path) -> str:
    pl.DataFrame({"a": [1, 2], "b": [3, 4], "y": [0, 1]}).write_ipc(folder / "a.arrow")
    return table("a.arrow")


def sqlite_wide(folder: Path) -> str:
    with sqlite3.connect(folder / "a.db") as database:
        database.execute("CREATE TABLE t AS SELECT 1 AS a, 2 AS b, 0 AS y UNION SELECT 4, 5, 1")
    database.close()
    return CONTRACT.format(data='sql: {url: "sqlite:///a.db", query: SELECT * FROM t}')


def unpacked(*_: object) -> None:
    raise AssertionError("the file is unpacked")


UNREAD = A_THOUSAND_BYTES | {"trainwright.data.sources.local_files._write_rows": unpacked}
"""Files that say what they unpack to are refused by that."""

UNPACKS, WIDE = "unpacks to far more than its size", "more columns than is allowed"
RATIO, COLUMNS = ("data.reading.most_unpacked_ratio=2",), ("data.reading.most_columns=2",)
LIMITED = {
    "csv_gzip": Limited(csv_gzip, UNPACKS, A_THOUSAND_BYTES, RATIO, "7.8 KiB and more"),
    "csv_zstd": Limited(csv_zstd, UNPACKS, A_THOUSAND_BYTES, RATIO, "7.8 KiB and more"),
    "csv_wide": Limited(csv_wide, WIDE, settings=COLUMNS, found="4 columns"),
    "csv_equal_names": Limited(csv_equal_names, WIDE, settings=COLUMNS, found="4 columns"),
    "csv_long_line": Limited(
        csv_long_line,
        "the line does not end",
        {
            "trainwright.data.formats.encodings.MOST_LINE_LETTERS": 200,
            "trainwright.data.formats.encodings._BLOCK": 64,
        },
        found="more than 200 letters",
    ),
    "json_keys": Limited(json_keys, UNPACKS, A_THOUSAND_BYTES, RATIO, found="78.9 KiB and more"),
    "json_keys_block": Limited(
        json_keys,
        UNPACKS,
        A_THOUSAND_BYTES | {"trainwright.data.formats.json_lines._BLOCK_RECORDS": 50},
        RATIO,
        found="19.9 KiB and more",
    ),
    "json_wide": Limited(json_keys, WIDE, settings=COLUMNS, found="101 columns"),
    "json_wide_block": Limited(
        json_keys,
        WIDE,
        {"trainwright.data.formats.json_lines._BLOCK_CELLS": 20},
        COLUMNS,
        found="6 columns",
    ),
    "parquet_rows": Limited(parquet_rows, UNPACKS, UNREAD, RATIO, "78.1 KiB and more"),
    "parquet_wide": Limited(parquet_wide, WIDE, settings=COLUMNS, found="3 columns"),
    "parquet_page": Limited(parquet_page, UNPACKS, UNREAD, RATIO, "39.1 KiB and more"),
    "parquet_dictionary": Limited(
        parquet_dictionary, UNPACKS, A_THOUSAND_BYTES, RATIO, "195.3 KiB and more"
    ),
    "parquet_categories": Limited(
        parquet_categories, UNPACKS, A_THOUSAND_BYTES, RATIO, "195.3 KiB and more"
    ),
    "arrow_packed": Limited(arrow_packed, UNPACKS, UNREAD, RATIO, "117.2 KiB and more"),
    "arrow_stream": Limited(arrow_stream, UNPACKS, UNREAD, RATIO, "117.2 KiB and more"),
    "arrow_text": Limited(arrow_text, UNPACKS, UNREAD, RATIO, "39.1 KiB and more"),
    "arrow_nulls": Limited(arrow_nulls, UNPACKS, UNREAD, RATIO, "15.6 KiB and more"),
    "arrow_wide": Limited(arrow_wide, WIDE, settings=COLUMNS, found="3 columns"),
    "sqlite_wide": Limited(sqlite_wide, WIDE, settings=COLUMNS, found="3 columns"),
}


@pytest.mark.parametrize("name", LIMITED)
def test_a_table_is_refused_at_a_lower_limit_and_read_at_the_usual_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name.startswith("sqlite"):
        pytest.importorskip("adbc_driver_sqlite")
    pytest.importorskip("pyarrow")
    contract = LIMITED[name].refused(tmp_path, monkeypatch)
    assert isinstance(contract.data, TableData)
    assert read_sources(contract.data, tmp_path)["train"].frame.height > 1


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """What waits for it goes on when the test ends."""
    event = threading.Event()
    yield event
    event.set()


def growing(monkeypatch: pytest.MonkeyPatch, module: object) -> None:
    """The process holds a gibibyte more each time that a module asks."""
    sizes = iter(range(0, 2**40, 2**30))
    monkeypatch.setattr(module, "resident_bytes", lambda: next(sizes))


def test_a_file_that_does_not_say_its_size_is_watched(
    tmp_path: Path, held: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of texts that share prefixes a Parquet file says no length: the memory is watched."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = pyarrow.table({"a": ["Bern", "Berlin"], "y": [0, 1]})
    options = {"use_dictionary": ["y"], "column_encoding": {"a": "DELTA_BYTE_ARRAY"}}
    parquet.write_table(rows, tmp_path / "a.parquet", **options)
    reading = Reading(cache="off")
    with monkeypatch.context() as patch:
        growing(patch, local_files)
        patch.setattr(local_files, "_write_rows", lambda *_: held.wait())
        with pytest.raises(DataMistake, match="unpacks to far more than its size"):
            read_source("a.parquet", tmp_path, reading=reading)
    assert read_source("a.parquet", tmp_path, reading=reading).frame.height == 2


@pytest.fixture
def query(tmp_path: Path) -> sql.SqlQuery:
    """Two rows of a database."""
    pytest.importorskip("adbc_driver_sqlite")
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("CREATE TABLE t AS SELECT 1 AS a UNION SELECT 2")
    database.close()
    section = Sql(url="sqlite:///a.db", query="SELECT * FROM t")
    return sql.SqlQuery(section, tmp_path, Reading())


@pytest.mark.parametrize(
    ("memory", "says"),
    [(2**40, "unpacks to far more than its size"), (1000, "does not fit into memory")],
)
def test_the_memory_of_an_answer_is_watched(
    memory: int,
    says: str,
    query: sql.SqlQuery,
    held: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A view of a small file may have rows without end."""
    assert query.parts()[0].frame.height == 2
    growing(monkeypatch, sql)
    monkeypatch.setattr(sql, "memory_bytes", lambda: memory)
    monkeypatch.setattr(sql.SqlQuery, "_fetched", lambda *_: held.wait())
    with pytest.raises(DataMistake, match=says):
        query.parts()


def test_a_query_that_is_not_answered_in_time_is_left(
    query: sql.SqlQuery, held: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert query.parts()[0].frame.height == 2
    monkeypatch.setattr(sql.SqlQuery, "_fetched", lambda *_: held.wait())
    with pytest.raises(DataMistake, match="does not come to an end"):
        replace(query, reading=Reading(most_seconds=0.01)).parts()


def test_an_answer_that_is_left_gives_no_further_batch() -> None:
    dbapi = pytest.importorskip("adbc_driver_sqlite.dbapi")
    batches = sql.Batches()
    with dbapi.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 AS a")
        answer = batches.of(cursor.fetch_arrow())
        batches.stop()
        with pytest.raises(pl.exceptions.PolarsError):
            pl.DataFrame(answer)


HEIGHT = 1_000_000


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv.gz", "csv.zst"])
def test_an_honest_file_that_packs_well_is_read(kind: str, tmp_path: Path) -> None:
    """Most columns hold one value."""
    height = HEIGHT // 10 if "csv" in kind else HEIGHT
    rows = pl.DataFrame(
        {
            "a": np.arange(height) % 97,
            **{f"c{i}": np.zeros(height, np.int64) for i in range(8)},
            "country": pl.repeat("United Kingdom of Great Britain", height, eager=True),
            "y": np.arange(height) % 2,
        }
    )
    file = tmp_path / f"a.{kind}"
    match kind:
        case "parquet":
            rows.write_parquet(file, compression="zstd")
        case "arrow":
            rows.write_ipc(file, compression="zstd")
        case "csv.gz":
            file.write_bytes(gzip.compress(rows.write_csv().encode()))
        case "csv.zst":
            file.write_bytes(zstandard.compress(rows.write_csv().encode()))
    assert rows.estimated_size() > 20 * file.stat().st_size
    assert read_source(file.name, tmp_path).frame.height == height
