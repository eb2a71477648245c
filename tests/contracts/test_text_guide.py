"""The pages of models of transformers and their examples: their commands run and say what is
shown."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from page_runs import ROOT, run_line, run_page

EXAMPLES = ROOT / "examples"

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.extended
@pytest.mark.parametrize("page", ["text-models.md", "image-models.md", "imported-model.md"])
def test_the_page_shows_what_its_commands_say(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(page, "## An example", monkeypatch)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("example", "made"),
    [
        ("texts", "python make_base.py messages.csv text base"),
        ("images", "python make_images.py images base 90"),
    ],
)
def test_the_example_trains_a_few_steps(
    example: str, made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in (EXAMPLES / example).iterdir():
        shutil.copy(file, file.name)
    run_line(made, monkeypatch)
    said = run_line("trainwright train contract.yaml --set training.stop.max_steps=5", monkeypatch)
    assert any(line.startswith("verdict") for line in said)
