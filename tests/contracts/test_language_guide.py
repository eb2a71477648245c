"""The pages of language models and their examples: the commands run and say what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from page_runs import run_page

pytestmark = pytest.mark.torch


PAGES = [
    "language-models.md",
    "chats.md",
    "preferences.md",
    "adapters.md",
    "stages.md",
    "questions.md",
    "vision-language.md",
]
HEADINGS = dict.fromkeys(PAGES, "## An example") | {"distillation.md": "## Decoders"}


@pytest.mark.extended
@pytest.mark.parametrize("page", HEADINGS)
def test_the_page_shows_what_its_commands_say(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page in ("adapters.md", "stages.md"):
        pytest.importorskip("peft")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    run_page(page, HEADINGS[page], monkeypatch)
