"""Text in any encoding becomes the same text."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import polars as pl
import pytest

from trainwright.contract.sections.data.sources import Reading
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.core.errors import DataMistake
from trainwright.data.formats import delimited
from trainwright.data.formats.encodings import text_blocks
from trainwright.data.sources.find_source import read_source
from trainwright.data.text.documents import END, find_documents

ENCODINGS = ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")


@pytest.mark.parametrize("encoding", [*ENCODINGS, "utf-8-sig", "gb18030"])
def test_a_byte_order_mark_is_no_letter(encoding: str, tmp_path: Path) -> None:
    mark = "" if encoding in ("utf-16", "utf-32", "utf-8-sig") else "\ufeff"
    text = f"{mark}größe,y\n1,ja\n\ufeff2,nein\n"
    (tmp_path / "rows.csv").write_bytes(text.encode(encoding))
    found = read_source("rows.csv", tmp_path, reading=Reading(encoding=encoding)).frame
    assert found.columns == ["größe", "y"]
    assert found["größe"].to_list() == ["1", "\ufeff2"]
    (tmp_path / "rows.txt").write_bytes(text.encode(encoding))
    blocks = text_blocks(tmp_path / "rows.txt", "rows.txt", Reading(encoding=encoding))
    assert "".join(blocks) == text.removeprefix(mark)


@pytest.mark.parametrize("before", ["", "\ufeff"])
def test_a_byte_that_is_not_of_the_encoding_is_counted_from_the_first(
    before: str, tmp_path: Path
) -> None:
    start = before.encode() + b"a,y\n1,n"
    (tmp_path / "rows.csv").write_bytes(start + b"\xe9e\n")
    with pytest.raises(DataMistake) as caught:
        read_source("rows.csv", tmp_path)
    assert f"offset {len(start)} " in caught.value.problems[0].found


@pytest.mark.parametrize("quoted", [True, False])
def test_an_empty_text_is_none_whatever_reads_the_file(quoted: bool, tmp_path: Path) -> None:
    """Old line ends are read by another parser than new ones."""
    texts = []
    for end in ("\n", "\r"):
        empty = '""' if quoted else ""
        lines = ["y,text", "no,first", f"no,{empty}", "yes,second", ""]
        (tmp_path / "rows.csv").write_bytes(end.join(lines).encode())
        section = TokenData(kind="tokens", path="rows.csv", text="text")
        found = find_documents(section, tmp_path)
        texts.append("".join(found.blocks()))
        assert found.notes == ("1 row without a text excluded",)
    assert texts == [f"first{END}second{END}"] * 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_text_without_the_mark_that_its_encoding_needs(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"a,b,y\n" + b"\xff\xfe\xe9,2,p\n" * 40)
    with pytest.raises(DataMistake, match=f"the text is not {encoding.upper()}"):
        list(text_blocks(tmp_path / "rows.csv", "rows.csv", Reading(encoding=encoding)))


def test_a_writer_that_fails_and_writes_later_spoils_no_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What polars cannot read is read again; its first writer may still be at work then."""
    late: list[IO[bytes]] = []
    sink = pl.LazyFrame.sink_ipc

    def fails_first(rows: pl.LazyFrame, target: Path, **options: Any) -> Any:
        if late:
            return sink(rows, target, **options)
        late.append(target.open("wb"))
        raise pl.exceptions.ComputeError("the rows are not read")

    monkeypatch.setattr(pl.LazyFrame, "sink_ipc", fails_first)
    (tmp_path / "rows.csv").write_text('y,text\nno,"first"\nyes,"second"\n')
    target = tmp_path / "rows.arrow"
    delimited.read_delimited(tmp_path / "rows.csv", "csv", "rows.csv", Reading(), target)
    late[0].write(b"\0" * 4096)
    late[0].close()
    assert pl.read_ipc(target)["text"].to_list() == ["first", "second"]
