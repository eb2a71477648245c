"""Every kind of source keeps the promises of the seam: the same rows, a hash that is theirs."""

from __future__ import annotations

import http.server
import sqlite3
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from made_data import saved_dataset
from trainwright.contract.sections.data.sources import USUAL, Sql
from trainwright.core.errors import Mistake
from trainwright.data.sources.find_source import read_query, read_source
from trainwright.data.sources.source_file import SourceFile

FIRST = pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "zürich"]})
OTHER = pl.DataFrame({"a": [1, 2, 4], "b": ["x", "y", "zürich"]})

Write = Callable[[pl.DataFrame], None]
Read = Callable[[], SourceFile]


def one_file(folder: Path, name: str) -> tuple[Write, Read]:
    def write(frame: pl.DataFrame) -> None:
        file = folder / name
        match file.suffix:
            case ".csv":
                frame.write_csv(file)
            case ".jsonl":
                frame.write_ndjson(file)
            case ".parquet":
                frame.write_parquet(file)
            case _:
                frame.write_ipc_stream(file)

    return write, lambda: read_source(name, folder)


def parts(folder: Path, suffix: str, named: str) -> tuple[Write, Read]:
    (folder / "parts").mkdir()

    def write(frame: pl.DataFrame) -> None:
        for at in range(frame.height):
            one_file(folder / "parts", f"part-{at}{suffix}")[0](frame[at : at + 1])
        (folder / "parts" / "_SUCCESS").touch()
        (folder / "parts" / "README.md").write_text("not data")

    return write, lambda: read_source(named, folder)


def database(folder: Path) -> tuple[Write, Read]:
    pytest.importorskip("adbc_driver_sqlite")

    def write(frame: pl.DataFrame) -> None:
        with sqlite3.connect(folder / "shop.db") as there:
            there.execute("DROP TABLE IF EXISTS t")
            there.execute("CREATE TABLE t (a INTEGER, b TEXT)")
            there.executemany("INSERT INTO t VALUES (?, ?)", frame.rows())
        there.close()

    section = Sql(url="sqlite:///shop.db", query="SELECT a, b FROM t ORDER BY a")
    return write, lambda: read_query(section, folder, USUAL)


def memory(folder: Path) -> tuple[Write, Read]:
    held: dict[str, pl.DataFrame] = {}
    return partial(held.__setitem__, "rows"), lambda: read_source(
        "frame://rows", folder, frames=held
    )


def saved(folder: Path) -> tuple[Write, Read]:
    return partial(saved_dataset, folder / "set"), lambda: read_source("set", folder)


def web(folder: Path, request: pytest.FixtureRequest) -> tuple[Write, Read]:
    pytest.importorskip("aiohttp")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=str(folder))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    request.addfinalizer(server.server_close)
    request.addfinalizer(server.shutdown)
    url = f"http://127.0.0.1:{server.server_port}/rows.parquet"
    return one_file(folder, "rows.parquet")[0], lambda: read_source(url, folder)


def elsewhere(folder: Path, named: str) -> tuple[Write, Read]:
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    root = f"/{folder.name}"

    def write(frame: pl.DataFrame) -> None:
        for at in range(frame.height):
            with files.open(f"{root}/part-{at}.csv", "wb") as stream:
                stream.write(frame[at : at + 1].write_csv().encode())

    return write, lambda: read_source(f"memory:/{root}{named}", folder)


KINDS: dict[str, Callable[[Path, pytest.FixtureRequest], tuple[Write, Read]]] = {
    "csv": lambda folder, _: one_file(folder, "rows.csv"),
    "jsonl": lambda folder, _: one_file(folder, "rows.jsonl"),
    "parquet": lambda folder, _: one_file(folder, "rows.parquet"),
    "arrow stream": lambda folder, _: one_file(folder, "rows.arrow"),
    "folder": lambda folder, _: parts(folder, ".parquet", "parts"),
    "pattern": lambda folder, _: parts(folder, ".csv", "par*/part-*.csv"),
    "absolute pattern": lambda folder, _: parts(folder, ".csv", f"{folder}/**/*.csv"),
    "sqlite": lambda folder, _: database(folder),
    "frame": lambda folder, _: memory(folder),
    "saved dataset": lambda folder, _: saved(folder),
    "http": web,
    "folder elsewhere": lambda folder, _: elsewhere(folder, ""),
    "pattern elsewhere": lambda folder, _: elsewhere(folder, "/part-*.csv"),
}


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Write, Read]:
    return KINDS[request.param](tmp_path, request)


def test_rows_come_in_order_and_say_how_many(kind: tuple[Write, Read]) -> None:
    write, read = kind
    write(FIRST)
    source = read()
    assert source.frame["b"].to_list() == FIRST["b"].to_list()
    assert source.frame["a"].cast(pl.Int64).to_list() == FIRST["a"].to_list()
    assert source.version.rows == 3
    assert sum(file.rows for file in source.files) == 3


def test_a_hash_is_that_of_the_content(kind: tuple[Write, Read]) -> None:
    write, read = kind
    write(FIRST)
    first, again = read(), read()
    assert first.version.sha256 == again.version.sha256
    write(OTHER)
    other = read()
    assert other.version.sha256 != first.version.sha256
    assert other.frame["a"].cast(pl.Int64).to_list() == [1, 2, 4]
    assert first.frame["a"].cast(pl.Int64).to_list() == [1, 2, 3]


@pytest.mark.parametrize("named", ["frame://rows", "nowhere.csv", "no*.csv", "memory://no/where"])
def test_what_is_not_there_is_named(named: str, tmp_path: Path) -> None:
    with pytest.raises(Mistake) as caught:
        read_source(named, tmp_path)
    (problem,) = caught.value.problems
    assert problem.path == "data.path"
    assert problem.fix
    assert list(tmp_path.iterdir()) == []
