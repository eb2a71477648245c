"""The how-to pages: their commands run in order and say what each page shows but for digits."""

from __future__ import annotations

import contextlib
import io
import shlex
import shutil
from pathlib import Path

import pytest

from command import command
from doc_pages import BLOCK, mask_digits, mask_verdicts, shown, smaller

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "how-to").glob("*.md"))
MANY_TREES = ("imbalance", "grouped-rows")
"""Pages that boost trees in five folds, several times."""
SMALL = [page for page in PAGES if page.stem in MANY_TREES]
JUDGED = (0, 3)


@pytest.mark.extended
@pytest.mark.torch
@pytest.mark.parametrize(
    ("page", "whole"),
    [
        *(pytest.param(one, True, id=one.stem) for one in PAGES if one.stem not in MANY_TREES),
        *(pytest.param(one, False, id=f"{one.stem}-small") for one in SMALL),
        *(pytest.param(one, True, marks=pytest.mark.slow, id=one.stem) for one in SMALL),
    ],
)
def test_a_page_shows_what_its_commands_say(
    page: Path, whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few trees and resamples the verdicts may be others."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    said: list[str] = []
    for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        match language:
            case "yaml":
                Path("contract.yaml").write_text(text, encoding="utf-8")
            case "text":
                masked = mask_digits if whole else mask_verdicts
                assert shown(text, said, masked), f"not said: {text}"
            case "python":
                with contextlib.redirect_stdout(io.StringIO()) as printed:
                    exec(compile(text, page.name, "exec"), {})
                assert printed.getvalue()
            case _:
                said = [line for one in text.splitlines() for line in run(one, whole=whole)]


def run(written: str, *, whole: bool) -> list[str]:
    """What a line of a shell block prints."""
    words = shlex.split(written)
    if words[0] == "cp":
        shutil.copy(ROOT / words[1], words[2])
        return []
    if not whole:
        words = smaller(words)
    ran = command(*words[1:])
    assert ran.code in JUDGED, ran.err
    return [*ran.err.splitlines(), *ran.out.splitlines()]
