"""Files that are not read: one clear message each, little memory, and nothing written."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Literal

import polars as pl
import pytest
import zstandard

from command import CONTRACT, command, inside, tree, write_project
from made_data import saved_dataset
from trainwright.contract.sections.data.sources import Reading
from trainwright.core import limits
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.redaction import holds_secret
from trainwright.data.formats import delimited, encodings
from trainwright.data.formats.encodings import encoding_of
from trainwright.data.sources import hf_dataset
from trainwright.data.sources.find_source import read_source

ROW = "a,y\n1,no\n2,yes\n"


def refused(folder: Path, name: str, **settings: object) -> Problem:
    """The one problem of a file, and nothing new beside it or in the cache."""
    before = tree(folder)
    reading = Reading.model_validate(settings | {"cache": str(folder.parent / "cache")})
    with pytest.raises(DataMistake) as caught:
        read_source(name, folder, reading=reading)
    assert tree(folder) == before
    assert not list((folder.parent / "cache").glob("*/*/*"))
    problem = caught.value.problems[0]
    assert problem.fix
    assert problem.place.file or problem.path
    return problem


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.mark.row("F-45")
@pytest.mark.parametrize("members", [1, 40])
@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_what_unpacks_too_far_is_left_before_it_fills_the_disk(
    kind: Literal["gz", "zst"], members: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a limit of a thousand bytes, and twice the size of the file."""
    pack = gzip.compress if kind == "gz" else zstandard.compress
    name, text = f"a.csv.{kind}", b"0" * (8000 // members)
    (folder / name).write_bytes(b"".join(pack(text) for _ in range(members)))
    monkeypatch.setattr(limits, "EXPANSION_BYTES", 1000)
    for constant, value in (("memory_bytes", lambda: 0), ("_BLOCK", 100), ("_ZSTD_BLOCK", 10)):
        monkeypatch.setattr(encodings, constant, value)
    problem = refused(folder, name, most_unpacked_ratio=2)
    assert "far more than its size" in problem.message
    assert "most_unpacked_ratio" in problem.fix
    reading, out = Reading(most_unpacked_ratio=2), folder.parent / "out"
    with pytest.raises(DataMistake):
        encodings.decompress_file(folder / name, f".{kind}", name, reading, out)
    assert out.stat().st_size <= encodings.most_expanded((folder / name).stat().st_size, 2)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet"])
def test_more_than_is_allowed(name: str, folder: Path) -> None:
    text = b"a,y\n" + b"1,no\n" * 4000
    match name:
        case "a.parquet":
            pl.DataFrame({"a": [1] * 4000}).write_parquet(folder / name)
        case "a.csv.gz":
            (folder / name).write_bytes(gzip.compress(text))
        case _:
            (folder / name).write_bytes(text)
    problem = refused(folder, name, most_gigabytes=1e-5)
    assert "more data than is allowed" in problem.message
    assert "most_gigabytes" in problem.fix


def test_packed_files_of_several_members_are_whole(folder: Path) -> None:
    for name, pack in (("a.csv.gz", gzip.compress), ("a.csv.zst", zstandard.compress)):
        (folder / name).write_bytes(pack(b"a,y\n1,no\n") + pack(b"2,yes\n"))
        assert read_source(name, folder).frame.rows() == [("1", "no"), ("2", "yes")]


@pytest.mark.parametrize("name", ["a.parquet.zst", "a.arrow.zst", "a.parquet.gz"])
def test_a_packed_table_is_unpacked(name: str, folder: Path) -> None:
    frame = pl.DataFrame({"a": [1, 2], "y": ["n", "y"]})
    inner = folder / "inner"
    frame.write_parquet(inner) if "parquet" in name else frame.write_ipc(inner)
    pack = gzip.compress if name.endswith("gz") else zstandard.compress
    (folder / name).write_bytes(pack(inner.read_bytes()))
    assert read_source(name, folder).frame.equals(frame)


@pytest.mark.parametrize(
    ("text", "encoding", "guess"),
    [
        ("a,y\ncafé olé,no\n", "cp1252", "cp1252"),
        ("a,y\n“quoted”,no\n", "cp1252", "cp1252"),
        ("a,y\nпривет мир,no\n", "cp1251", "cp1251"),
        ("a,y\nこんにちは,no\n", "shift_jis", "shift_jis"),
        ("a,y\n你好世界,no\n", "gb18030", "gb18030"),
        ("a,y\nplain,no\n", "utf-16-le", "utf-16-le"),
    ],
)
def test_another_encoding_is_named_and_can_be_set(
    text: str, encoding: str, guess: str, folder: Path
) -> None:
    data = text.encode(encoding)
    (folder / "a.csv").write_bytes(data)
    assert encoding_of(data) == guess
    problem = refused(folder, "a.csv")
    if guess != "utf-16-le":
        assert f"looks like {guess}" in problem.expected
        assert f"data.reading.encoding to {guess}" in problem.fix
        assert f"offset {len('a,y') + 1 + (3 if 'caf' in text else 0)} " in problem.found
        assert problem.place.line == 2
    source = read_source("a.csv", folder, reading=Reading(encoding=encoding))
    assert source.frame["a"].to_list() == [text.split("\n")[1].rpartition(",")[0]]


@pytest.mark.parametrize("at", [100, 70_000, 3_000_000])
def test_a_byte_that_is_no_text_is_found_anywhere(at: int, folder: Path) -> None:
    good = b"a,y\n" + b"12345678,no\n" * (at // 12)
    for wrong, said in ((b"\xff", "not UTF-8"), (b"\0", "NUL")):
        (folder / "a.csv").write_bytes(good + b"1" + wrong + b"2,no\n")
        problem = refused(folder, "a.csv")
        assert said in problem.message + problem.found
        if said == "not UTF-8":
            assert f"offset {len(good) + 1} " in problem.found
        if at > 65_536:
            assert problem.place.line == good.count(b"\n") + 1


def test_the_position_counts_a_mark_at_the_beginning(folder: Path) -> None:
    (folder / "a.csv").write_bytes(b"\xef\xbb\xbfa,y\n\xe9,no\n")
    assert "offset 7 " in refused(folder, "a.csv").found


@pytest.mark.row("F-34")
def test_a_field_of_a_million_letters_is_one_field(folder: Path) -> None:
    (folder / "a.csv").write_text(f'a,y\n"{"x" * 10**6}",no\n')
    assert len(read_source("a.csv", folder).frame["a"][0]) == 10**6


def test_a_quote_that_never_ends_takes_no_whole_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "MOST_FIELD_LETTERS", 1000)
    (folder / "a.csv").write_text('a,y\n"' + "x,no\n" * 400)
    problem = refused(folder, "a.csv")
    assert "field larger than field limit (1000)" in problem.found
    assert problem.message == "a quoted field does not end"
    assert problem.kind == "broken_quotes"
    assert problem.place.line == 2
    assert "quotes to none" in problem.fix


@pytest.mark.row("F-34")
def test_json_that_is_nested_too_deeply(folder: Path) -> None:
    (folder / "a.jsonl").write_text('{"a": 1}\n' + "[" * 1000 + "\n")
    problem = refused(folder, "a.jsonl")
    assert problem.place.line == 2


@pytest.mark.row("F-34")
@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [("a.csv", "{},x\n", "1,2,3,4\n"), ("a.jsonl", '{{"a": {}, "y": "x"}}\n', "not JSON\n")],
)
def test_a_few_bad_records_may_be_left_out(name: str, good: str, bad: str, folder: Path) -> None:
    head = "a,y\n" if name == "a.csv" else ""
    lines = [bad if at in (3, 7) else good.format(at) for at in range(10)]
    (folder / name).write_text(head + "".join(lines))
    refused(folder, name)
    refused(folder, name, bad_records=1)
    source = read_source(name, folder, reading=Reading(bad_records=2))
    assert source.frame["a"].to_list() == [str(at) for at in range(10) if at not in (3, 7)]
    first = 2 if head else 1
    assert source.version.skipped == (first + 3, first + 7)
    assert source.version.to_json()["skipped_lines"] == [first + 3, first + 7]
    assert first + 3 not in source.lines


@pytest.mark.row("F-47")
def test_a_link_out_of_the_folder_is_no_part(folder: Path) -> None:
    (folder / "parts").mkdir()
    (folder.parent / "other.csv").write_text(ROW)
    (folder / "parts" / "a.csv").write_text(ROW)
    (folder / "parts" / "b.csv").symlink_to(folder.parent / "other.csv")
    for named in ("parts", "parts/*.csv"):
        problem = refused(folder, named)
        assert "leads out of the folder" in problem.message
        assert "b.csv" in problem.found
    (folder / "parts" / "b.csv").unlink()
    (folder / "parts" / "b.csv").symlink_to("a.csv")
    assert read_source("parts", folder).frame.height == 4


@pytest.mark.row("F-47")
@pytest.mark.parametrize("name", ["../other.arrow", "/other.arrow", "a\0b", "..", "x" * 300])
def test_a_saved_dataset_names_only_its_own_files(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved_dataset(folder / "set", pl.DataFrame({"a": [1, 2]}))
    named = {"_data_files": [{"filename": name}]}
    monkeypatch.setattr(hf_dataset, "read_json", lambda _: named)
    assert "state.json" in refused(folder, "set").message


@pytest.mark.parametrize("name", ["a\0b.csv", "x" * 5000 + ".csv", "\udcff.csv", "a.csv/b.csv"])
def test_names_that_no_file_can_have(name: str, folder: Path) -> None:
    (folder / "a.csv").write_text(ROW)
    refused(folder, name)


def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "a.csv")
    reading = Reading(cache="off")
    with pytest.raises(DataMistake, match="device or a pipe"):
        read_source("a.csv", folder, reading=reading)


def test_parts_that_do_not_belong_together(folder: Path) -> None:
    (folder / "p").mkdir()
    pl.DataFrame({"a": [1], "b": ["x"]}).write_parquet(folder / "p" / "1.parquet")
    pl.DataFrame({"b": ["x"], "a": [2]}).write_parquet(folder / "p" / "2.parquet")
    assert read_source("p", folder).frame.rows() == [(1, "x"), (2, "x")]
    pl.DataFrame({"a": [1.5], "c": ["x"]}).write_parquet(folder / "p" / "3.parquet")
    problem = refused_parts(folder)
    assert problem.place.file == "p/3.parquet"
    assert problem.found == "no 'b'; also 'c'; a Float64 instead of Int64"
    (folder / "p" / "3.parquet").unlink()
    (folder / "p" / "4.csv").write_text("a,b\n1,x\n")
    assert "more than one format" in refused_parts(folder).message


def refused_parts(folder: Path) -> Problem:
    with pytest.raises(DataMistake) as caught:
        read_source("p", folder)
    (problem,) = caught.value.problems
    return problem


def test_a_row_of_parts_has_its_own_file_and_line(folder: Path) -> None:
    (folder / "p").mkdir()
    (folder / "p" / "1.csv").write_text("a\n1\n2\n")
    (folder / "p" / "2.csv").write_text("a\n\n3\n4\n")
    source = read_source("p", folder)
    assert str(source.place(1)) == "p/1.csv:3"
    assert str(source.place(2)) == "p/2.csv:3"
    assert str(source.place(3)) == "p/2.csv:4"
    assert str(source.place()) == "p"


_WORD = "S3cretWord"


@pytest.mark.row("F-48")
@pytest.mark.parametrize(
    "data",
    [
        "path: 's3://key:S3cretWord@bucket/rows.csv'",
        "path: 'https://host/rows.csv?sig=S3cretWord'",
        "path: 'https://host/rows.csv?code=S3cretWord'",
        "path: 'https://host/rows.csv;token=S3cretWord'",
        "path: 'https://host/rows.csv#access_token=S3cretWord'",
        "path: 'https://host/rows.csv?%74oken=S3cretWord'",
        "path: 'https://host/token/S3cretWord/rows.csv'",
        "path: 'https://S3cretWord@host/rows.csv'",
        "path: 'https://me:S3cret/Word@host/rows.csv'",
        "path: 'simplecache::https://me:S3cretWord@host/rows.csv'",
        "path: 'zip://rows.csv::https://host/x.zip?token=S3cretWord'",
        "path: 'ftp://me:S3cretWord@host/rows.csv'",
        "path: rows.csv  # from https://me:S3cretWord@host/rows.csv",
        "path: rows.csv\n  split: {kind: file, path: 'https://host/parts.csv?token=S3cretWord'}",
        "kind: images\n  path: rows.csv\n  fields: {root: 'https://host/i?token=S3cretWord'}",
        "sql: {url: 'postgresql://me:S3cretWord@host/shop', query: SELECT 1}",
        "sql: {url: 'postgresql://host/shop?password=S3cretWord', query: SELECT 1}",
        "sql: {url: 'postgresql://host/s', query: \"SELECT f('host=a password=S3cretWord')\"}",
    ],
)
def test_a_password_in_a_url_ends_nowhere(data: str, tmp_path: Path) -> None:
    write_project(tmp_path, CONTRACT.replace("path: rows.csv", data))
    before = tree(tmp_path)
    with inside(tmp_path):
        ran = command("train", "small.yaml")
    assert ran.code == 2
    assert _WORD not in (ran.out + ran.err).replace("/", "")
    assert "PGPASSWORD" in ran.err
    assert tree(tmp_path) == before


@pytest.mark.row("F-48")
def test_init_and_overrides_keep_a_secret_to_themselves(tmp_path: Path) -> None:
    write_project(tmp_path)
    before = tree(tmp_path)
    url = f"https://host/rows.csv?token={_WORD}"
    with inside(tmp_path):
        ended = [
            command("init", url, "--target", "bought"),
            command("train", "small.yaml", "--set", f"data.path={url}"),
            command("train", "small.yaml", "--set", f"data.password={_WORD}"),
            command("check", "small.yaml", "--set", f"api_key:{_WORD}"),
            command("train", "small.yaml", "--set", f"data.path=simplecache::{url}"),
        ]
    for ran in ended:
        assert ran.code == 2
        assert _WORD not in ran.out + ran.err
    assert tree(tmp_path) == before


@pytest.mark.row("F-48")
@pytest.mark.parametrize("scheme", ["simplecache::https", "ftp", "ssh", "git", "zip", "reference"])
def test_a_scheme_that_is_not_documented_is_refused(scheme: str, tmp_path: Path) -> None:
    write_project(tmp_path, CONTRACT.replace("rows.csv", f"{scheme}://host/rows.csv"))
    with inside(tmp_path):
        ran = command("check", "small.yaml")
    assert ran.code == 2
    assert "no place that is known" in ran.err


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://app_user_2024@db.example.org:5432/shop?sslmode=require&sslkey=/a/b",
        "abfs://container@account.dfs.core.windows.net/rows.csv",
        "hf://datasets/user/repo@main/rows.csv",
        "https://host:8080/a@v1/rows.csv?download=1&gid=0",
        "https://raw.example.org/x/0123456789abcdef0123456789abcdef01234567/rows.csv",
        "s3://bucket/rows.csv?versionId=3HL4kqtJlcpXroDTDmJrmSpXd3dIbrHY",
        "https://api.example.org/data?get=NAME&for=state:*&zipcode=4000",
    ],
)
def test_an_honest_url_holds_no_secret(url: str) -> None:
    assert not holds_secret(url)
