"""The page of texts in a table and its example: their commands run and say what is shown."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from page_runs import ROOT, run_line, run_page

EXAMPLE = ROOT / "examples" / "texts"

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("COLUMNS", "100")


def test_the_page_shows_what_its_commands_say(monkeypatch: pytest.MonkeyPatch) -> None:
    run_page("text-models.md", "## An example", monkeypatch)


def test_the_example_trains_a_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for file in EXAMPLE.iterdir():
        shutil.copy(file, file.name)
    run_line("python make_base.py messages.csv text base", monkeypatch)
    said = run_line("trainwright train contract.yaml --set training.stop.max_steps=5", monkeypatch)
    assert any(line.startswith("verdict") for line in said)
