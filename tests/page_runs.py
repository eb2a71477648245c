"""Pages of the guide whose blocks are run: contracts are written, commands run, lines compared."""

from __future__ import annotations

import runpy
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from command import command
from doc_pages import BLOCK, mask_digits, shown
from guide import GUIDE

ROOT = Path(__file__).resolve().parents[1]
JUDGED = (0, 3)


def run_line(written: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a line of a shell block prints."""
    first, *words = shlex.split(written)
    if first == "cp":
        shutil.copy(ROOT / words[0], words[1])
        return []
    if first == "python":
        monkeypatch.setattr(sys, "argv", words)
        runpy.run_path(words[0], run_name="__main__")
        return []
    ran = command(*words)
    assert ran.code in JUDGED, ran.err
    return [*ran.err.splitlines(), *ran.out.splitlines()]


def run_page(name: str, heading: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a page of the guide from a heading on, in the working folder."""
    said: list[str] = []
    text = (GUIDE / name).read_text(encoding="utf-8")
    for language, block in BLOCK.findall(text[text.index(heading) :]):
        match language:
            case "yaml":
                Path("contract.yaml").write_text(block, encoding="utf-8")
            case "shell":
                said = [one for line in block.splitlines() for one in run_line(line, monkeypatch)]
            case "sh" | "python":
                pass  # tested elsewhere, as it needs more than the page
            case _:
                assert shown(block, said, mask_digits), f"not said: {block}\n{said}"
