"""The revision that DVC gives to a file is the one of its output."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.data.sources.provenance import find_revisions
from trainwright.data.sources.source_file import FileVersion

OUTPUT = "outs:\n- md5: {}\n  size: 8\n  hash: md5\n  path: rows.csv\n"
RIGHT = "22e2e2a7b5a3bd1e5ebac3aa5a8e44c7"
OTHER = "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"


def revisions(folder: Path, text: str, named: str = "rows.csv") -> list[tuple[str, str]]:
    (folder / "rows.csv").write_text("a,b\n1,2\n")
    (folder / f"{named}.dvc").write_bytes(text.encode())
    found = find_revisions([FileVersion("rows.csv", "", 8, 1)], folder)
    return [(one.revision, one.note) for one in found]


@pytest.mark.parametrize(
    "before",
    [
        "",
        f"md5: {OTHER}\nfrozen: true\n",
        f"deps:\n- path: raw.csv\n  md5: {OTHER}\n  size: 99\n",
        f"md5: {OTHER}\ndeps:\n- etag: '{OTHER}'\n  path: https://there/rows.csv\n  size: 5\n",
        f"# md5: {OTHER}\ndesc: |\n  md5: {OTHER}\n",
    ],
)
def test_what_stands_above_the_output_is_not_it(before: str, tmp_path: Path) -> None:
    assert revisions(tmp_path, before + OUTPUT.format(RIGHT)) == [(RIGHT, "")]
    assert revisions(tmp_path, before + OUTPUT.format(f'"{RIGHT}"')) == [(RIGHT, "")]
    assert revisions(tmp_path, before + OUTPUT.format(f"{RIGHT}.dir")) == [(f"{RIGHT}.dir", "")]


def test_a_size_of_its_own_is_told(tmp_path: Path) -> None:
    text = OUTPUT.format(RIGHT).replace("size: 8", "size: 9")
    assert revisions(tmp_path, text) == [(RIGHT, "9 bytes there, 8 here")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "outs",
        "outs: []",
        "outs: {md5: abc}",
        "outs: [md5]",
        "outs: [[md5]]",
        "outs:\n- path: rows.csv\n",
        "outs:\n- md5:\n",
        f"md5: {OTHER}",
        "outs: [",
        "\0",
        "a: !!python/tuple [1]",
        "[" * 1000,
        "x" * 300_000,
    ],
)
def test_of_a_note_that_is_written_otherwise_nothing_is_said(text: str, tmp_path: Path) -> None:
    assert revisions(tmp_path, text) == []


def test_a_note_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    (tmp_path / "rows.csv.dvc").write_bytes(b"\xff\xfe\x00outs")
    assert find_revisions([FileVersion("rows.csv", "", 8, 1)], tmp_path) == ()
