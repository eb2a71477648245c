"""The cache is shared, whole or absent, and never makes old data of new."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.contract.sections.data.sources import Reading
from trainwright.core.errors import DataMistake, StorageFailed
from trainwright.core.files import hash_file
from trainwright.data.formats.arrow_files import open_arrow
from trainwright.data.formats.file_format import NO_LINES, ParseResult
from trainwright.data.sources.cache import Cache, Uncached, cache_folder, open_cache
from trainwright.data.sources.find_source import read_source
from trainwright.data.sources.source_file import SourceFile


def read(folder: Path, name: str = "a.csv", **settings: object) -> SourceFile:
    reading = Reading.model_validate({"cache": str(folder / "cache"), **settings})
    return read_source(name, folder, reading=reading)


def kept(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@settings(max_examples=25, deadline=None)
@given(values=st.lists(st.integers(10, 99), min_size=2, max_size=6))
def test_other_content_of_one_size_and_time_is_other_data(
    values: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    file = folder / "a.csv"
    for value in values:
        file.write_text(f"a,y\n{value},no\n")
        os.utime(file, (1_700_000_000, 1_700_000_000))
        assert read(folder).frame["a"].to_list() == [str(value)]


def test_a_file_is_read_once_and_in_other_ways_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("a,y\n1,no\n2,yes\n")
    first = read(tmp_path)
    entries = Cache(tmp_path / "cache").entries()
    assert [entry.name for entry in entries] == ["a.csv"]
    monkeypatch.setattr("trainwright.data.formats.delimited.read_delimited", None)
    again = read(tmp_path)
    assert again.frame.equals(first.frame)
    assert again.lines.tolist() == first.lines.tolist() == [2, 3]
    monkeypatch.undo()
    assert read(tmp_path, header=False).frame.columns == ["column_1", "column_2"]
    (tmp_path / "b.csv").write_bytes((tmp_path / "a.csv").read_bytes())
    read(tmp_path, "b.csv")
    assert len(Cache(tmp_path / "cache").entries()) == 2


@pytest.mark.parametrize("name", ["rows.arrow", "lines.i64", "entry.json"])
@pytest.mark.parametrize("hurt", ["cut", "flip", "remove"])
def test_a_damaged_entry_is_built_again(name: str, hurt: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,y\n1,no\n2,yes\n")
    first = read(tmp_path)
    (file,) = (tmp_path / "cache" / "tables").glob(f"*/{name}")
    data = file.read_bytes()
    match hurt:
        case "cut":
            file.write_bytes(data[: len(data) // 2])
        case "flip":
            file.write_bytes(data[:-8] + bytes([data[-8] ^ 1]) + data[-7:])
        case _:
            file.unlink()
    again = read(tmp_path)
    assert again.frame.equals(first.frame)
    assert again.lines.tolist() == first.lines.tolist()


def test_an_entry_is_hashed_once_when_it_is_built_and_once_when_it_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("a,y\n1,no\n2,yes\n")
    hashed: list[str] = []

    def counted(path: Path) -> str:
        hashed.append(path.name)
        return hash_file(path)

    monkeypatch.setattr("trainwright.data.sources.cache.hash_file", counted)
    monkeypatch.setattr("trainwright.core.files.hash_file", counted)
    for _ in ("built", "found"):
        read(tmp_path)
        assert hashed.count("rows.arrow") == hashed.count("lines.i64") == 1
        hashed.clear()


def test_a_mistake_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,y\n1,no\n2\n")
    with pytest.raises(DataMistake):
        read(tmp_path)
    assert [name for name in kept(tmp_path / "cache") if not name.startswith("locks/")] == []


KILLED = """
import os, sys
from pathlib import Path
from trainwright.data.sources.cache import Cache
def build(target):
    target.write_bytes(b"half of the rows")
    os._exit(9)
Cache(Path(sys.argv[1])).table("ab" * 32, "rows", build)
"""


def test_a_killed_builder_hinders_nobody(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert killed.returncode == 9
    assert [path.name[:4] for path in (tmp_path / "tables").iterdir()] == [".tmp"]
    frame = pl.DataFrame({"a": [1, 2]})

    def build(target: Path) -> ParseResult:
        frame.write_ipc(target)
        return ParseResult(NO_LINES)

    assert Cache(tmp_path).table("ab" * 32, "rows", build).frame.equals(frame)
    assert [path.name for path in (tmp_path / "tables").iterdir()] == ["ab" * 32]


def test_builders_at_one_time_build_once(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": range(1000)})
    built: list[int] = []
    together = threading.Barrier(4)
    found: list[bool] = []

    def build(target: Path) -> ParseResult:
        built.append(1)
        frame.write_ipc(target)
        return ParseResult(NO_LINES)

    def one() -> None:
        together.wait()
        found.append(Cache(tmp_path).table("cd" * 32, "rows", build).frame.equals(frame))

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4
    assert len(built) == 1


def test_a_file_that_changes_while_it_is_read_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainwright.data.formats import delimited

    file = tmp_path / "a.csv"
    file.write_text("a,y\n1,no\n2,yes\n")
    real = delimited.read_delimited

    def meanwhile(*arguments: object) -> ParseResult:
        parsed = real(*arguments)  # type: ignore[arg-type]
        file.write_text("a,y\n1,no\n3,yes\n")
        return parsed

    monkeypatch.setattr("trainwright.data.formats.delimited.read_delimited", meanwhile)
    with pytest.raises(DataMistake, match="changed while it was read"):
        read(tmp_path)
    monkeypatch.undo()
    assert read(tmp_path).frame["a"].to_list() == ["1", "3"]


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINWRIGHT_CACHE", str(tmp_path / "one"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "two"))
    assert cache_folder() == tmp_path / "one"
    monkeypatch.delenv("TRAINWRIGHT_CACHE")
    assert cache_folder() == tmp_path / "two" / "trainwright"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "trainwright"
    assert isinstance(open_cache("off", tmp_path), Uncached)
    chosen = open_cache("here", tmp_path)
    assert isinstance(chosen, Cache)
    assert chosen.folder == tmp_path / "here"


def test_without_a_cache_the_rows_are_the_same_and_nothing_stays(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(__import__("gzip").compress(b"a,y\n1,no\n2,yes\n"))
    before = kept(tmp_path)
    source = read_source("a.csv.gz", tmp_path, reading=Reading(cache="off"))
    assert source.frame.rows() == [("1", "no"), ("2", "yes")]
    assert kept(tmp_path) == before


def test_a_mapped_frame_is_the_frame(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pl.DataFrame(
        {
            "a": [1, None, 3],
            "b": ["x", None, "a long text that lies outside of its view"],
            "c": [True, False, None],
            "d": [[1], [], None],
        }
    ).with_columns(e=pl.lit("2024-01-01").str.to_datetime(), f=pl.col("b").cast(pl.Categorical))
    frame.write_ipc(tmp_path / "rows.arrow")
    assert open_arrow(tmp_path / "rows.arrow", mapped_from=0).equals(frame)
    assert open_arrow(tmp_path / "rows.arrow").equals(frame)


def test_clear_removes_what_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,y\n1,no\n")
    (tmp_path / "b.csv").write_text("a,y\n2,no\n")
    read(tmp_path)
    held = read(tmp_path, "b.csv").frame
    cache = Cache(tmp_path / "cache")
    first, second = cache.entries()
    assert first.size_bytes > 0
    assert cache.clear(frozenset({second.key[:12]})) == [second]
    assert [entry.key for entry in cache.entries()] == [first.key]
    cache.clear(frozenset({""}))
    assert cache.entries() == []
    assert held["a"].to_list() == ["2"]


def test_what_cannot_be_removed_is_not_reported_as_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("a,y\n1,no\n")
    read(tmp_path)
    cache = Cache(tmp_path / "cache")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("not yours")

    # Whoever runs the tests may be allowed everything, so the system's answer is played.
    monkeypatch.setattr("os.unlink", refuse)
    with pytest.raises(StorageFailed, match="not yours"):
        cache.clear(frozenset({""}))
    assert len(cache.entries()) == 1
