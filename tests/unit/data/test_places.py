"""Databases and stores: what they hold is read, and what they refuse is told in one message."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import object_store
import trainwright as tw
from command import CONTRACT, command, inside, tree, write_project
from deadlines import within
from made_data import saved_dataset
from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.sections.data.sources import USUAL, Reading, Sql
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import DataMistake, MissingExtra, Mistake, Problem
from trainwright.data.read_table import read_table
from trainwright.data.sources.cache import Cache
from trainwright.data.sources.find_source import read_query, read_source
from trainwright.data.sources.frames import hash_frame

SHOP = pl.DataFrame({"age": [39, 50, None, 28], "y": ["no", "yes", "no", "yes"]})


def refused(section: Sql, folder: Path) -> Problem:
    with pytest.raises(DataMistake) as caught:
        read_query(section, folder, USUAL)
    (problem,) = caught.value.problems
    return problem


# SQLite


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    pytest.importorskip("adbc_driver_sqlite")
    with sqlite3.connect(tmp_path / "shop.db") as there:
        there.execute("CREATE TABLE t (age INTEGER, y TEXT)")
        there.executemany("INSERT INTO t VALUES (?, ?)", SHOP.rows())
    there.close()
    return tmp_path


@pytest.mark.parametrize("url", ["sqlite:///shop.db", "sqlite:///{}/shop.db"])
def test_a_query_gives_typed_rows(url: str, shop: Path) -> None:
    section = Sql(url=url.format(shop), query="SELECT * FROM t WHERE age IS NOT NULL ORDER BY age")
    source = read_query(section, shop, USUAL)
    assert source.frame.rows() == [(28, "yes"), (39, "no"), (50, "yes")]


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO t VALUES (1, 'x')",
        "DROP TABLE t",
        "SELECT 1; ATTACH DATABASE 'new.db' AS n",
        "SELEC * FROM t",
        "SELECT * FROM nowhere",
    ],
)
def test_a_query_only_reads(query: str, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop)
    before = tree(shop)
    with pytest.raises(DataMistake):
        read_table(TableData(sql=Sql(url="sqlite:///shop.db", query=query), target="y"), shop)
    assert tree(shop) == before


@pytest.mark.parametrize("before", ["", "  -- SELECT\n", "/* SELECT */ (", "-- SELECT"])
@pytest.mark.parametrize("query", ["ATTACH DATABASE 'new.db' AS n", "PRAGMA query_only = OFF"])
def test_only_what_begins_as_a_query_is_sent(before: str, query: str, tmp_path: Path) -> None:
    sql = json.dumps({"url": "sqlite:///shop.db", "query": before + query})
    write_project(tmp_path, CONTRACT.replace("path: rows.csv", f"sql: {sql}"))
    with pytest.raises(Mistake, match="a query only reads"):
        read_contract(tmp_path / "small.yaml")


@pytest.mark.parametrize("before", ["", "  -- all of them\n", "/* all */ "])
@pytest.mark.parametrize(
    "query", ["select 1", "(SELECT 1)", "WITH a AS (SELECT 1) SELECT * FROM a"]
)
def test_what_begins_as_a_query_is_sent(before: str, query: str, tmp_path: Path) -> None:
    sql = json.dumps({"url": "sqlite:///shop.db", "query": before + query})
    write_project(tmp_path, CONTRACT.replace("path: rows.csv", f"sql: {sql}"))
    assert read_contract(tmp_path / "small.yaml").contract.data.sql.query == before + query


def test_a_database_that_is_not_there_is_not_made(shop: Path) -> None:
    problem = refused(Sql(url="sqlite:///shpo.db", query="SELECT 1"), shop)
    assert "no such database" in problem.message
    assert not (shop / "shpo.db").exists()


@pytest.mark.extended
def test_a_run_from_a_query_is_judged_and_other_rows_are_other_data(tmp_path: Path) -> None:
    pytest.importorskip("adbc_driver_sqlite")
    write_project(
        tmp_path,
        CONTRACT.replace(
            "path: rows.csv",
            "sql: {url: 'sqlite:///rows.db', query: SELECT * FROM rows ORDER BY rowid}",
        ),
    )
    rows = pl.read_csv(tmp_path / "rows.csv")
    with sqlite3.connect(tmp_path / "rows.db") as there:
        there.execute("CREATE TABLE rows (age INTEGER, city TEXT, visits REAL, bought TEXT)")
        there.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", rows.rows())
    there.close()
    with inside(tmp_path):
        first, again = versions("one"), versions("two")
        with sqlite3.connect("rows.db") as there:
            there.execute("UPDATE rows SET age = age + 1 WHERE rowid = 7")
        there.close()
        assert first == again != versions("three")


def versions(name: str) -> list[str]:
    """The hashes of the data files of a new run."""
    ran = command("train", "small.yaml", "--run", name)
    assert ran.code in (0, 3), ran.err
    manifest = json.loads(Path("runs", name, "data", "manifest.json").read_text())
    files = manifest["facts"]["files"]
    assert [file["path"] for file in files] == ["sqlite:///rows.db"]
    return [file["sha256"] for file in files]


# PostgreSQL


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The URL of a server of our own, whose user has a password."""
    pytest.importorskip("adbc_driver_postgresql")
    for name in ("initdb", "pg_ctl", "psql"):
        if shutil.which(name) is None:
            pytest.skip(f"there is no PostgreSQL on this machine: {name} is missing")
    # Not below pytest's folder, which only root may enter.
    with tempfile.TemporaryDirectory(prefix="trainwright-pg-") as folder:
        yield from serve_postgres(Path(folder))


def serve_postgres(folder: Path) -> Iterator[str]:
    user = [] if os.geteuid() else ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if user:
        os.chown(folder, 65534, 65534)
    (folder / "word").write_text("W0rdOfTests")
    (folder / "word").chmod(0o644)
    run = {"check": True, "capture_output": True, "cwd": folder, "timeout": within(60)}
    made = ["initdb", "-D", "db", "-U", "tester", "-A", "scram-sha-256", "--pwfile=word"]
    try:
        subprocess.run([*user, *made], **run)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"initdb does not work here: {error.stderr.decode()[:200]}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"-c listen_addresses=127.0.0.1 -p {port} -k {folder}"
    server = [*user, "pg_ctl", "-D", "db", "-w", "-l", "log", "-o", options]
    subprocess.run([*server, "start"], **{**run, "capture_output": False})
    try:
        yield f"postgresql://tester@127.0.0.1:{port}/postgres"
    finally:
        stop = [*user, "pg_ctl", "-D", "db", "-m", "immediate", "stop"]
        ended = subprocess.run(stop, **{**run, "check": False})
        assert ended.returncode == 0, ended.stderr.decode()


QUERY = "SELECT * FROM (VALUES (39, 1.5::numeric, 'no'), (50, NULL, 'yes')) AS t(age, x, y)"


def test_postgresql_answers(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "W0rdOfTests")
    source = read_query(Sql(url=postgres, query=QUERY), Path(), USUAL)
    assert source.frame["age"].to_list() == [39, 50]
    assert source.frame["x"].cast(pl.Float64).to_list() == [1.5, None]
    assert source.version.path == postgres.replace("tester@", "")
    assert "tester" not in str(source.version.to_json())


def test_postgresql_only_reads(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "W0rdOfTests")
    for query in ("CREATE TABLE made (a int)", "SELECT * FROM made"):
        assert "refuses the query" in refused(Sql(url=postgres, query=query), Path()).message


def test_a_refused_password_is_told_without_it(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "An0therWord")
    problem = refused(Sql(url=postgres, query=QUERY), Path())
    assert "An0therWord" not in str(problem)
    assert "PGPASSWORD" in problem.fix


def test_a_server_that_is_not_there() -> None:
    pytest.importorskip("adbc_driver_postgresql")
    problem = refused(Sql(url="postgresql://me@127.0.0.1:1/shop", query="SELECT 1"), Path())
    assert "cannot be reached" in problem.message
    assert problem.place.file == "postgresql://127.0.0.1:1/shop"


# Stores


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with object_store.bucket("rows") as name:
        yield name


@pytest.mark.extended
def test_s3_is_read_once_for_each_content(bucket: str, tmp_path: Path) -> None:
    import boto3

    store = boto3.client("s3")
    reading = Reading(cache=str(tmp_path / "cache"))
    cache = Cache(tmp_path / "cache")

    def put(name: str, frame: pl.DataFrame) -> None:
        store.put_object(Bucket=bucket, Key=name, Body=frame.write_csv().encode())

    put("t/1.csv", SHOP[:2])
    put("t/2.csv", SHOP[2:])
    put("t/_SUCCESS", SHOP[:0])
    for named in ("s3://rows/t", "s3://rows/t/*.csv", "s3://rows/t"):
        source = read_source(named, tmp_path, reading=reading)
        assert source.frame["y"].to_list() == SHOP["y"].to_list()
        assert [file.path for file in source.files] == ["s3://rows/t/1.csv", "s3://rows/t/2.csv"]
    assert [entry.shelf for entry in cache.entries()].count("downloads") == 2
    put("t/2.csv", SHOP[2:].reverse())
    source = read_source("s3://rows/t", tmp_path, reading=reading)
    assert source.frame["y"].to_list() == ["no", "yes", "yes", "no"]


def test_s3_that_has_no_such_place(bucket: str, tmp_path: Path) -> None:
    for named in ("s3://rows/no/where.csv", "s3://nobody-has-this/rows.csv", "s3://rows/empty"):
        with pytest.raises(DataMistake) as caught:
            read_source(named, tmp_path)
        assert caught.value.problems[0].path == "data.path"


def test_a_store_whose_package_is_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(MissingExtra, match=r"trainwright\[gs\]"):
        read_source("gs://bucket/rows.csv", tmp_path)
    with pytest.raises(DataMistake, match="no place that is known"):
        read_source("nowhere://bucket/rows.csv", tmp_path)


def test_a_database_whose_package_is_absent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    with pytest.raises(MissingExtra, match=r"trainwright\[sql\]"):
        read_query(Sql(url="postgresql://host/shop", query="SELECT 1"), tmp_path, USUAL)


# Datasets that were saved


def test_labels_of_a_saved_dataset_have_names(tmp_path: Path) -> None:
    features = {"label": {"names": ["ham", "spam"], "_type": "ClassLabel"}, "a": {"_type": "Value"}}
    frame = pl.DataFrame({"a": [1, 2, 3], "label": [0, 1, -1]})
    saved_dataset(tmp_path / "set", frame, features=features)
    source = read_source("set", tmp_path)
    assert source.frame["label"].to_list() == ["ham", "spam", None]
    assert [file.rows for file in source.files] == [2, 1]


def test_other_names_of_labels_are_other_data(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": [1, 2], "label": [0, 1]})
    hashes = set()
    for names in (["ham", "spam"], ["spam", "ham"], ["ham", "spam", "eggs"]):
        features = {"label": {"names": names, "_type": "ClassLabel"}}
        saved_dataset(tmp_path / "set", frame, features=features)
        hashes.add(read_source("set", tmp_path).version.sha256)
    assert len(hashes) == 3


@pytest.mark.parametrize("features", [[], {"label": {"_type": "ClassLabel"}}, {"label": 3}])
def test_notes_of_a_saved_dataset_that_name_no_labels(features: object, tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": [1, 2], "label": [0, 1]})
    saved_dataset(tmp_path / "set", frame, features=features)
    assert read_source("set", tmp_path).frame.equals(frame)


def test_a_dataset_of_several_splits_is_named_split_by_split(tmp_path: Path) -> None:
    saved_dataset(tmp_path / "set" / "train", SHOP)
    (tmp_path / "set" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(DataMistake) as caught:
        read_source("set", tmp_path)
    assert "set/train, set/test" in caught.value.problems[0].fix
    assert read_source("set/train", tmp_path).frame.equals(SHOP)


def test_chosen_rows_that_were_not_written_out(tmp_path: Path) -> None:
    saved_dataset(tmp_path / "set", SHOP)
    (tmp_path / "set" / "state.json").write_text('{"_indices_files": [{"filename": "i.arrow"}]}')
    with pytest.raises(DataMistake, match="chosen"):
        read_source("set", tmp_path)


# Frames from Python


def test_frames_of_all_libraries_are_the_same_rows(tmp_path: Path) -> None:
    columns = {"a": np.array([1.0, 2.0]), "b": np.array([3, 4])}
    frames: dict[str, object] = {"polars": pl.DataFrame(columns), "arrays": columns}
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frames["pandas"] = pandas.DataFrame(columns)
    hashes = {
        read_source(f"frame://{name}", tmp_path, frames=frames).version.sha256
        for name in frames  # type: ignore[arg-type]
    }
    assert len(hashes) == 1


def test_a_hash_of_a_frame_is_of_its_values(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": [1, None], "b": ["x", "yz"], "c": [[1], []], "d": [True, None]})
    frame = frame.with_columns(e=pl.col("b").cast(pl.Categorical))
    assert hash_frame(frame) == hash_frame(pl.concat([frame[:1], frame[1:]], rechunk=False))
    others = [
        frame.with_columns(a=pl.Series([0, None])),
        frame.with_columns(a=pl.Series([1, 0])),
        frame.with_columns(b=pl.Series(["xy", "z"])),
        frame.with_columns(c=pl.Series([[], [1]], dtype=pl.List(pl.Int64))),
        frame.with_columns(d=pl.Series([True, False])),
        frame.rename({"a": "aa"}),
        frame.with_columns(pl.col("a").cast(pl.Int32)),
        frame.reverse(),
    ]
    hashes = [hash_frame(other) for other in (frame, *others)]
    assert len(set(hashes)) == len(hashes)


def test_training_on_a_frame(tmp_path: Path) -> None:
    path = write_project(tmp_path, CONTRACT.replace("rows.csv", "frame://customers"))
    rows = pl.read_csv(tmp_path / "rows.csv")
    (tmp_path / "rows.csv").unlink()
    run = tw.train(path, runs=tmp_path / "runs", frames={"customers": rows})
    assert run.verdict.status in ("met", "undecided", "missed")
    with pytest.raises(DataMistake, match="no frame 'customers'"):
        tw.train(path, runs=tmp_path / "runs", frames={"custmers": rows})
    with inside(tmp_path):
        ran = command("train", "small.yaml")
    assert ran.code == 2
    assert "frames={'customers': frame}" in ran.err


@pytest.mark.parametrize(
    "query", ["select 1; drop table t", "select ';' ; select 2", "select 1;;-- two\nselect 2"]
)
def test_a_second_statement_is_refused(query: str, tmp_path: Path) -> None:
    """SQLite runs the first alone, and says nothing of the others."""
    sql = json.dumps({"url": "sqlite:///shop.db", "query": query})
    write_project(tmp_path, CONTRACT.replace("path: rows.csv", f"sql: {sql}"))
    with pytest.raises(Mistake, match="a query is one statement"):
        read_contract(tmp_path / "small.yaml")


@pytest.mark.parametrize(
    "query",
    [
        "select 1;",
        "select 1 ; \n ;",
        "select 'a;b', \"c;d\", `e;f`, [g;h]",
        "select 1 -- one; two",
        "select 1 /* one; two */",
        "select $$a;b$$, $x$a;$$b$x$",
        "select E'it\\'s; one'",
        "select 'it''s; one'; -- end",
    ],
)
def test_a_semicolon_in_a_text_ends_nothing(query: str, tmp_path: Path) -> None:
    sql = json.dumps({"url": "sqlite:///shop.db", "query": query})
    write_project(tmp_path, CONTRACT.replace("path: rows.csv", f"sql: {sql}"))
    assert read_contract(tmp_path / "small.yaml").contract.data.sql.query == query


def test_a_query_that_names_a_column_twice_is_told_so(shop: Path) -> None:
    section = Sql(url="sqlite:///shop.db", query="SELECT 1 AS a, 2 AS a")
    with pytest.raises(DataMistake, match="names a column twice"):
        read_table(TableData(sql=section, target="a"), shop)
