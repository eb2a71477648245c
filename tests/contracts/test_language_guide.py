"""The page of language models and its example: their commands run and say what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from page_runs import run_page

pytestmark = pytest.mark.torch


def test_the_page_shows_what_its_commands_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    run_page("language-models.md", "## An example", monkeypatch)
