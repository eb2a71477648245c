"""What a file is, by its name and by its first bytes."""

from __future__ import annotations

import bz2
from pathlib import Path

import polars as pl
import pytest

from trainwright.core.errors import DataMistake
from trainwright.data.formats.file_format import format_of, known_format, looks_like
from trainwright.data.sources.find_source import read_source


@pytest.mark.parametrize("column", ["FEA1", "PAR1", "ARROW1", "BZh", "BZh9", "GIF8", "GIF89a"])
def test_a_column_may_be_called_as_a_format_begins(column: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"{column},y\n1,no\n2,yes\n")
    assert read_source("rows.csv", tmp_path).frame[column].to_list() == ["1", "2"]


def test_other_formats_are_told_by_their_beginnings(tmp_path: Path) -> None:
    rows = pl.DataFrame({"a": [1]})
    rows.write_parquet(tmp_path / "parquet")
    rows.write_ipc(tmp_path / "arrow")
    heads = {
        "Parquet": (tmp_path / "parquet").read_bytes(),
        "Arrow": (tmp_path / "arrow").read_bytes(),
        "bzip2": bz2.compress(b"a,y\n1,no\n"),
        "GIF image": b"GIF89a\x01\x00\x01\x00",
        "Feather version 1": b"FEA1\x00\x00\x00\x00",
    }
    assert {looks_like(head) for head in heads.values()} == set(heads)
    assert looks_like(bz2.compress(b"")) == "bzip2"
    for name, head in heads.items():
        (tmp_path / "rows.csv").write_bytes(head)
        with pytest.raises(DataMistake) as caught:
            read_source("rows.csv", tmp_path)
        assert caught.value.problems[0].found == name


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("a.CSV", "csv"),
        ("a.csv.gz", "csv"),
        ("a.b.parquet", "parquet"),
        ("s3://rows/a.tsv?versionId=1.csv", "tsv"),
        ("a.gz", ""),
        ("csv", ""),
        ("a.csv.bak", ""),
        ("a.csv.gz.zst", ""),
    ],
)
def test_a_name_says_its_format(name: str, known: str) -> None:
    assert known_format(name) == known


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("a.json", "jq -c '.[]' a.json > rows.jsonl"),
        ("a.xlsx", "save the sheet as CSV"),
        ("a.csv.zip", "unpack it"),
        ("a.csv.bz2", "unpack it, or pack it as .gz or .zst"),
        ("a.pkl", "never opened here"),
        ("a.db", "sqlite:///a.db"),
        ("a.txt", "rename the file"),
        ("a", "rename the file"),
    ],
)
def test_another_format_has_its_own_fix(name: str, fix: str) -> None:
    """A renamed workbook is no CSV."""
    with pytest.raises(DataMistake) as caught:
        format_of(name, "data.path")
    assert fix in caught.value.problems[0].fix
