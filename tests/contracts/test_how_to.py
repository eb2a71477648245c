"""The how-to pages: their commands run in order and say what each page shows but for digits."""

from __future__ import annotations

import contextlib
import io
import shlex
import shutil
from pathlib import Path

import pytest

from command import command
from doc_pages import BLOCK, mask_digits, shown

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "how-to").glob("*.md"))
JUDGED = (0, 3)


@pytest.mark.torch
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_what_its_commands_say(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    said: list[str] = []
    for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        match language:
            case "yaml":
                Path("contract.yaml").write_text(text, encoding="utf-8")
            case "text":
                assert shown(text, said, mask_digits), f"not said: {text}"
            case "python":
                with contextlib.redirect_stdout(io.StringIO()) as printed:
                    exec(compile(text, page.name, "exec"), {})
                assert printed.getvalue()
            case _:
                said = [line for one in text.splitlines() for line in run(one)]


def run(written: str) -> list[str]:
    """What a line of a shell block prints."""
    words = shlex.split(written)
    if words[0] == "cp":
        shutil.copy(ROOT / words[1], words[2])
        return []
    ran = command(*words[1:])
    assert ran.code in JUDGED, ran.err
    return [*ran.err.splitlines(), *ran.out.splitlines()]
