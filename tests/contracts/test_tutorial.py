"""The tutorial: its commands run in order and say what the page shows, but for the digits."""

from __future__ import annotations

import gzip
import shlex
from itertools import islice
from pathlib import Path

import pytest

from command import command
from doc_pages import BLOCK, mask_digits, mask_verdicts, shown, smaller

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
WHOLE, FEW = 10**6, 3000
EXIT_CODES = {"first": 3, "linear": 3, "second": 0}


@pytest.mark.parametrize(
    "rows", [pytest.param(WHOLE, marks=pytest.mark.slow), FEW], ids=["whole", "few"]
)
def test_the_page_shows_what_its_commands_say(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few rows the verdicts may be others."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    said: list[str] = []
    masked = mask_digits if rows == WHOLE else mask_verdicts
    for language, text in BLOCK.findall(PAGE):
        match language:
            case "yaml":
                Path("contract.yaml").write_text(text, encoding="utf-8")
            case "text":
                assert shown(text, said, masked), "the page shows other lines than its command"
            case _:
                said = [line for one in text.splitlines() for line in run(one, rows)]


def run(written: str, rows: int) -> list[str]:
    """What a line of a block says."""
    words = shlex.split(written)
    if words[0] == "cp":
        copy_rows(ROOT / words[1], Path(words[2]), rows)
        return []
    if rows != WHOLE:
        words = smaller(words)
    ran = command(*words[1:])
    named = words[words.index("--run") + 1] if "--run" in words else ""
    allowed = (EXIT_CODES.get(named, 0),) if rows == WHOLE else (0, 3)
    assert ran.code in allowed, ran.err
    return [*ran.err.splitlines(), *ran.out.splitlines()]


def copy_rows(source: Path, target: Path, rows: int) -> None:
    """Copy the header and the first rows of a packed CSV."""
    with gzip.open(source, "rt") as lines, gzip.open(target, "wt", compresslevel=1) as kept:
        kept.writelines(islice(lines, rows + 1))
