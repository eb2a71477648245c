"""Every way a file can be wrong is told with its place and a fix, before any parser sees it."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import polars as pl
import pytest

from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import DataMistake, Problem
from trainwright.data.read_table import read_table

GOOD = "a,b,y\n1,x,no\n2,y,yes\n3,x,no\n4,y,yes\n"


def problems_of(folder: Path, name: str, content: bytes | str) -> list[Problem]:
    data = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(data)
    with pytest.raises(DataMistake) as caught:
        read_table(TableData(path=name, target="y"), folder)
    for problem in caught.value.problems:
        assert problem.message
        assert problem.fix
    return list(caught.value.problems)


def test_a_missing_file_names_the_nearest_one(tmp_path: Path) -> None:
    (tmp_path / "income.csv").write_text(GOOD)
    with pytest.raises(DataMistake) as caught:
        read_table(TableData(path="incme.csv", target="y"), tmp_path)
    (problem,) = caught.value.problems
    assert problem.path == "data.path"
    assert "'income.csv'" in problem.fix


def test_all_missing_files_are_named_at_once(tmp_path: Path) -> None:
    section = TableData(train_path="a.csv", val_path="b.csv", test_path="c.csv", target="y")
    with pytest.raises(DataMistake) as caught:
        read_table(section, tmp_path)
    paths = [problem.path for problem in caught.value.problems]
    assert paths == ["data.train_path", "data.val_path", "data.test_path"]


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").mkdir()
    (tmp_path / "rows.csv" / "notes.md").write_text(GOOD)
    with pytest.raises(DataMistake, match="folder") as caught:
        read_table(TableData(path="rows.csv", target="y"), tmp_path)
    assert "notes.md" in caught.value.problems[0].found


@pytest.mark.parametrize("content", ["", " \n\n"])
def test_an_empty_file(tmp_path: Path, content: str) -> None:
    (problem,) = problems_of(tmp_path, "a.csv", content)
    assert problem.message == "the file is empty"
    assert problem.place.file == "a.csv"


def test_a_header_and_no_rows(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, "a.csv", "a,b,y\n")
    assert "no rows" in problem.message


def test_one_row(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, "a.csv", "a,b,y\n1,2,3\n")
    assert "only one row" in problem.message


def test_duplicate_column_names(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, "a.csv", "a, a,y\n1,2,3\n4,5,6\n")
    assert problem.found == "'a'"
    assert problem.place.line == 1


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, "a.csv", b"a,y\n1,no\ncaf\xe9,yes\n")
    assert problem.place.line == 3
    assert "0xe9 at offset 12" in problem.found
    assert "iconv" in problem.fix


def test_utf16(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, "a.csv", GOOD.encode("utf-16"))
    assert "iconv -f UTF-16" in problem.fix


@pytest.mark.parametrize(
    ("text", "line"),
    [('a,y\n1,no\n"2,yes\n3,no\n', 3), ('a,y\n1,no\n2,yes\n"3"x,no\n', 4)],
)
def test_broken_quotes(tmp_path: Path, text: str, line: int) -> None:
    (problem,) = problems_of(tmp_path, "a.csv", text)
    assert "quoted field" in problem.message
    assert problem.place.line == line


def test_too_many_and_too_few_fields_together(tmp_path: Path) -> None:
    many, few = problems_of(tmp_path, "a.csv", "a,b,y\n1,2,3,4\n1,2,3\n1,2\n")
    assert "too many" in many.message
    assert many.place.line == 2
    assert "too few" in few.message
    assert few.place.line == 4
    assert few.expected == "3, as in the header"


def test_lines_count_from_the_file_not_from_the_rows(tmp_path: Path) -> None:
    text = 'a,b,y\n"two\nlines",1,no\n\n"x",2,yes\nz,4,\nz,3,yes\n'
    (problem,) = problems_of(tmp_path, "a.csv", text)
    assert problem.path == "y"
    assert problem.place.line == 6


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_named_parquet_is_never_opened(tmp_path: Path, protocol: int) -> None:
    data = pickle.dumps({"a": [1], "y": ["no"]}, protocol=protocol)
    (problem,) = problems_of(tmp_path, "a.parquet", data)
    assert problem.found == "Python pickle"
    assert problem.expected == "Parquet"
    assert "pickle" in problem.fix


@pytest.mark.parametrize(
    ("name", "data", "found"),
    [
        ("a.csv", b"\x89PNG\r\n\x1a\n....", "PNG image"),
        ("a.csv", b"PK\x03\x04....", "ZIP"),
        ("a.csv", gzip.compress(GOOD.encode(), mtime=0), "gzip"),
        ("a.csv", b"a,y\n1,\x00\n", "binary data"),
        ("a.csv.gz", GOOD.encode(), "text"),
        ("a.csv.gz", gzip.compress(b"PAR1\0...", mtime=0), "Parquet"),
        ("a.parquet", GOOD.encode(), "text"),
        ("a.arrow", b"PAR1\0...PAR1", "Parquet"),
        ("a.jsonl", b"%PDF-1.4", "PDF"),
    ],
)
def test_content_that_its_name_belies(tmp_path: Path, name: str, data: bytes, found: str) -> None:
    (problem,) = problems_of(tmp_path, name, data)
    assert problem.found.startswith(found)


@pytest.mark.parametrize("keep", [40, -9])
def test_a_truncated_parquet(tmp_path: Path, keep: int) -> None:
    pl.DataFrame({"a": [1, 2, 3], "y": ["n", "y", "n"]}).write_parquet(tmp_path / "whole.parquet")
    whole = (tmp_path / "whole.parquet").read_bytes()
    (problem,) = problems_of(tmp_path, "a.parquet", whole[:keep])
    assert "damaged or cut short" in problem.message


def test_a_damaged_parquet(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1, 2, 3], "y": ["n", "y", "n"]}).write_parquet(tmp_path / "whole.parquet")
    data = bytearray((tmp_path / "whole.parquet").read_bytes())
    data[-60:-20] = b"\xff" * 40
    (problem,) = problems_of(tmp_path, "a.parquet", bytes(data))
    assert "damaged or cut short" in problem.message


def test_a_truncated_gzip(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, "a.csv.gz", gzip.compress(GOOD.encode() * 50)[:-12])
    assert "gzip file is damaged" in problem.message


def test_a_truncated_zstd(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1, 2], "y": ["n", "y"]}).write_csv(
        tmp_path / "whole.csv.zst", compression="zstd"
    )
    whole = (tmp_path / "whole.csv.zst").read_bytes()
    (problem,) = problems_of(tmp_path, "a.csv.zst", whole[:-6])
    assert "zstd file is damaged" in problem.message


def test_broken_json_lines_are_named(tmp_path: Path) -> None:
    text = '{"a": 1, "y": "n"}\n{"a": 2,\n[1]\n{"a": {"b": 1}, "y": "y"}\n{"a": 1, "a": 2}\n'
    found = problems_of(tmp_path, "a.jsonl", text)
    assert [problem.place.line for problem in found] == [2, 3, 4, 5]


def test_an_unknown_suffix(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, "a.xlsx", GOOD)
    assert "CSV" in problem.expected
