"""The page of texts in a table and its example: their commands run and say what is shown."""

from __future__ import annotations

import runpy
import shlex
import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from command import command
from doc_pages import BLOCK, mask_digits, shown
from guide import GUIDE

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "texts"
JUDGED = (0, 3)

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("COLUMNS", "100")


def run(written: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
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


def test_the_page_shows_what_its_commands_say(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    text = (GUIDE / "text-models.md").read_text(encoding="utf-8")
    for language, block in BLOCK.findall(text[text.index("## An example") :]):
        match language:
            case "yaml":
                Path("contract.yaml").write_text(block, encoding="utf-8")
            case "shell":
                said = [one for line in block.splitlines() for one in run(line, monkeypatch)]
            case _:
                assert shown(block, said, mask_digits), f"not said: {block}\n{said}"


def test_the_example_trains_a_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for file in EXAMPLE.iterdir():
        shutil.copy(file, file.name)
    run("python make_base.py messages.csv text base", monkeypatch)
    said = run("trainwright train contract.yaml --set training.stop.max_steps=5", monkeypatch)
    assert any(line.startswith("verdict") for line in said)
