"""Every format gives the same rows, and text is typed by one set of rules."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.tiers import times
from trainwright.contract.sections.data.sources import USUAL, Reading
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import DataMistake
from trainwright.data.base.inputs import Integers
from trainwright.data.formats.delimited import read_delimited
from trainwright.data.read_table import read_table
from trainwright.data.sources.find_source import read_source

FRAME = pl.DataFrame(
    {
        "age": [39, 50, None, 28],
        "sex": ["Male", "Female", "Male", None],
        "income": ["low", "high", "low", "high"],
    }
)


def delimited(text: str, reading: Reading = USUAL) -> tuple[pl.DataFrame, Integers]:
    """The rows and lines of a CSV with this text."""
    with tempfile.TemporaryDirectory() as folder:
        file, target = Path(folder) / "a.csv", Path(folder) / "rows.arrow"
        file.write_bytes(text.encode())
        parsed = read_delimited(file, "csv", "a.csv", reading, target)
        return pl.read_ipc(target), parsed.lines


def write(folder: Path, name: str) -> Path:
    path = folder / name
    stem = name.removesuffix(".gz")
    if stem.endswith(".csv"):
        data = FRAME.write_csv().encode()
    elif stem.endswith(".tsv"):
        data = FRAME.write_csv(separator="\t").encode()
    elif stem.endswith((".jsonl", ".ndjson")):
        data = FRAME.write_ndjson().encode()
    elif stem.endswith(".parquet"):
        FRAME.write_parquet(folder / "tmp")
        data = (folder / "tmp").read_bytes()
    else:
        FRAME.write_ipc(folder / "tmp")
        data = (folder / "tmp").read_bytes()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("compression", ["", ".gz"])
@pytest.mark.parametrize(
    "suffix", [".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".arrow", ".feather"]
)
def test_every_format_gives_the_same_typed_rows(
    tmp_path: Path, suffix: str, compression: str
) -> None:
    path = write(tmp_path, f"rows{suffix}{compression}")
    raw = read_table(TableData(path=path.name, target="income"), tmp_path)
    assert raw.frames["train"].select(FRAME.columns).rows() == [
        (39.0, "Male", "low"),
        (50.0, "Female", "high"),
        (None, "Male", "low"),
        (28.0, None, "high"),
    ]
    (file,) = raw.facts.files
    assert file.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (file.path, file.rows, file.size_bytes) == (path.name, 4, path.stat().st_size)


def test_zstd_text(tmp_path: Path) -> None:
    FRAME.write_csv(tmp_path / "rows.csv.zst", compression="zstd")
    plain = tmp_path / "rows.csv"
    FRAME.write_csv(plain)
    assert read_source("rows.csv.zst", tmp_path).frame.equals(
        read_source(plain.name, tmp_path).frame
    )


def test_zstd_json_lines(tmp_path: Path) -> None:
    FRAME.write_ndjson(tmp_path / "rows.jsonl.zst", compression="zstd")
    FRAME.write_ndjson(tmp_path / "rows.jsonl")
    packed = read_source("rows.jsonl.zst", tmp_path).frame
    assert packed.equals(read_source("rows.jsonl", tmp_path).frame)


def test_an_arrow_stream(tmp_path: Path) -> None:
    FRAME.write_ipc_stream(tmp_path / "rows.arrow")
    assert read_source("rows.arrow", tmp_path).frame.equals(FRAME)


def test_text_stays_text_until_it_is_typed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("zip,y\n007,no\n012,yes\n")
    assert read_source("a.csv", tmp_path).frame["zip"].to_list() == ["007", "012"]


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_a_csv_without_commas_in_its_header_may_use_another_separator(separator: str) -> None:
    frame, _ = delimited(f"a{separator}b\n1{separator}2,5\n")
    assert frame.rows() == [("1", "2,5")]


def test_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfa,y\r\n1,no\r\n2,yes\r\n")
    frame = read_source("a.csv", tmp_path).frame
    assert frame.columns == ["a", "y"]
    assert frame["y"].to_list() == ["no", "yes"]


@pytest.mark.parametrize("end", ["", "\n", "\n\n\n", "\n  \n"])
def test_lines_that_hold_nothing_are_no_rows(end: str) -> None:
    frame, lines = delimited(f"a,y\n\n1,no\n\n2,yes{end}")
    assert frame.rows() == [("1", "no"), ("2", "yes")]
    assert lines.tolist() == [3, 5]


@pytest.mark.parametrize("start", ["", "\n", "\n\n", "  \n", "\n \n\n"])
@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
@pytest.mark.parametrize("row", ["{},no", "{}"])
def test_rows_without_a_header_may_begin_with_blank_lines(start: str, end: str, row: str) -> None:
    text = start + row.format(1) + "\n\n" + row.format(2) + end
    frame, lines = delimited(text, Reading(header=False))
    frame = frame.filter(pl.col("column_1").str.strip_chars() != "")
    assert frame["column_1"].to_list() == ["1", "2"]
    assert len(frame.columns) == row.count(",") + 1
    assert [text.split("\n")[line - 1][:1] for line in lines.tolist()][-2:] == ["1", "2"]


def test_rows_without_a_header_have_the_width_of_the_first() -> None:
    with pytest.raises(DataMistake) as caught:
        delimited("\n1,no\n2\n", Reading(header=False))
    (problem,) = caught.value.problems
    assert problem.expected == "2, as in the first row"
    assert problem.place.line == 3
    frame, _ = delimited("\n1;no\n2;yes\n", Reading(header=False))
    assert frame.rows() == [("1", "no"), ("2", "yes")]
    with pytest.raises(DataMistake, match="holds no rows"):
        delimited("\n \n", Reading(header=False))


def test_quotes_hold_separators_line_ends_and_quotes() -> None:
    frame, lines = delimited('a,y\n"x, ""y""\nz",1\n5" pipe,2\n')
    assert frame["a"].to_list() == ['x, "y"\nz', '5" pipe']
    assert lines.tolist() == [2, 4]


def test_old_line_ends_are_read_though_the_fast_reader_does_not_know_them() -> None:
    frame, _ = delimited("a,y\r1,no\r2,yes\r")
    assert frame.rows() == [("1", "no"), ("2", "yes")]


def test_a_column_without_a_name_gets_its_number() -> None:
    frame, _ = delimited(",y\n1,no\n")
    assert frame.columns == ["column_1", "y"]


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.jsonl", "a.csv"])
def test_every_format_names_a_column_without_a_name(name: str, tmp_path: Path) -> None:
    """The index of pandas has none."""
    frame = pl.DataFrame({"y": [1, 2], "": [3, 4], "column_2": [5, 6], " ": [7, 8]})
    match name.partition(".")[2]:
        case "parquet":
            frame.write_parquet(tmp_path / name)
        case "arrow":
            frame.write_ipc(tmp_path / name)
        case "jsonl":
            frame.drop(" ").write_ndjson(tmp_path / name)
        case _:
            frame.drop("column_2").write_csv(tmp_path / name)
    expected = ["y", "column_2_2", "column_2", "column_4"]
    if name == "a.jsonl":
        expected = ["y", "column_2_2", "column_2"]
    if name == "a.csv":
        expected = ["y", "column_2", "column_3"]
    found = read_source(name, tmp_path).frame
    assert found.columns == expected
    assert pl.DataFrame(found.get_columns()).columns == expected


def test_json_lines_keep_the_spelling_of_numbers(tmp_path: Path) -> None:
    text = '{"a": 1.50, "b": true}\n\n{"b": null, "c": 1e3}\n'
    (tmp_path / "a.jsonl").write_text(text)
    source = read_source("a.jsonl", tmp_path)
    assert source.frame.to_dicts() == [
        {"a": "1.50", "b": "true", "c": None},
        {"a": None, "b": None, "c": "1e3"},
    ]
    assert source.lines.tolist() == [1, 3]


FIELDS = st.text(alphabet='ab1,;"\n\r\t é', max_size=6)


@settings(max_examples=times(50, 200), deadline=None)
@given(rows=st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=8))
def test_whatever_a_csv_writer_writes_is_read_back(rows: list[tuple[str, str]]) -> None:
    stream = io.StringIO()
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([("a", "b"), *rows])
    frame, lines = delimited(stream.getvalue())
    assert [tuple(value or "" for value in row) for row in frame.rows()] == rows
    assert len(lines) == len(rows)
