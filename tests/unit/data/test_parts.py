"""One rule says which files of a folder, a pattern or a store are data."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.contract.sections.data.tokens import TokenData
from trainwright.data.sources.find_source import read_source
from trainwright.data.text.documents import END, find_documents

ASIDE = (
    "_log.csv",
    ".hidden.csv",
    "_temporary/part-9.csv",
    ".ipynb_checkpoints/part-0-checkpoint.csv",
)


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    for at in range(2):
        (tmp_path / f"parts/part-{at}.csv").parent.mkdir(exist_ok=True)
        (tmp_path / f"parts/part-{at}.csv").write_text(f"a,y\n{at},no\n")
    for name in ASIDE:
        (tmp_path / "parts" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "parts" / name).write_text("a,y\n9,yes\n")
    return tmp_path


@pytest.mark.parametrize("named", ["parts", "parts/*.csv", "parts/**/*.csv", "par*/**"])
def test_what_lies_aside_is_no_part(parts: Path, named: str) -> None:
    found = read_source(named, parts)
    assert [file.path for file in found.files] == ["parts/part-0.csv", "parts/part-1.csv"]


@pytest.mark.parametrize("named", ["", "/*.csv", "/**/*.csv", "/**"])
def test_what_lies_aside_in_a_store_is_no_part(parts: Path, named: str) -> None:
    pytest.importorskip("fsspec")
    found = read_source(f"file://{parts}/parts{named}", parts)
    assert [Path(file.path).name for file in found.files] == ["part-0.csv", "part-1.csv"]


def test_a_pattern_may_name_what_lies_aside(parts: Path) -> None:
    assert read_source("parts/_*.csv", parts).frame["a"].to_list() == ["9"]


def test_a_copy_that_an_editor_keeps_is_no_document(tmp_path: Path) -> None:
    for name, text in {
        "one.txt": "first",
        "more/two.txt": "second",
        ".ipynb_checkpoints/one-checkpoint.txt": "first",
        "_old/one.md": "first",
        ".one.txt": "first",
    }.items():
        (tmp_path / "texts" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "texts" / name).write_text(text)
    found = find_documents(TokenData(kind="tokens", path="texts"), tmp_path)
    assert "".join(found.blocks()) == f"second{END}first{END}"
