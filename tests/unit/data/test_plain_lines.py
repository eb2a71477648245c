"""Lines that are records are counted without reading their fields, and only where they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trainwright.contract.sections.data.sources import Reading
from trainwright.core.errors import DataMistake
from trainwright.data.formats import delimited
from trainwright.data.formats import delimited as plain_lines
from trainwright.data.formats.delimited import count_plain_lines


def file_of(folder: Path, text: bytes) -> Path:
    file = folder / "rows.csv"
    file.write_bytes(text)
    return file


@pytest.mark.parametrize("block", [1, 7, 1000])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_counts_lines_wherever_blocks_end(
    block: int, end: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_lines, "_BLOCK_BYTES", block)
    file = file_of(tmp_path, b"a,b\n1,2\n,\n33,4" + end)
    # A line longer than a block is left to the reader of records.
    assert count_plain_lines(file, ",", 2) == (0 if block == 1 else 4)


@pytest.mark.parametrize(
    "text",
    [
        b'a,b\n"1,2",3\n',
        b"a,b\r\n1,2\r\n",
        "a,b\né,2\n".encode(),
        b"a,b\n\n1,2\n",
        b"a,b\n1,2,3\n4\n",
        b"a,b\n1\n2,3,4\n",
        b"a,b\n1,2\n3",
        b"a,b\n1,\x002\n",
    ],
)
def test_leaves_all_else_to_the_reader_of_records(text: bytes, tmp_path: Path) -> None:
    assert count_plain_lines(file_of(tmp_path, text), ",", 2) == 0


@pytest.mark.parametrize(
    "text",
    [b"a,b\n1,2\n3,4", b"a,b\n 1,2\n\n3,4\n", b"a,b\n1,2\n3,4,5\n", b"a,b\n", b"a,a\n1,2\n"],
)
@pytest.mark.parametrize("header", [True, False])
def test_reads_the_same_rows_and_says_the_same(
    text: bytes, header: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_of(tmp_path, text)

    def read() -> tuple[object, ...]:
        target = tmp_path / "rows.arrow"
        try:
            found = delimited.read_delimited(
                file, "csv", "rows.csv", Reading(header=header), target
            )
        except DataMistake as mistake:
            return (str(mistake),)
        return found.lines.tolist(), found.skipped, target.read_bytes()

    fast = read()
    monkeypatch.setattr(delimited, "count_plain_lines", lambda *_: 0)
    assert read() == fast


def test_most_lines_are_not_read_field_by_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "_scan", None)
    file = file_of(tmp_path, b"a,b\n" + b"1,2\n" * 5)
    found = delimited.read_delimited(file, "csv", "rows.csv", Reading(), tmp_path / "rows.arrow")
    assert np.array_equal(found.lines, np.arange(2, 7))
