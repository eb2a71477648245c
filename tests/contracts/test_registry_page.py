"""The page of the registry: its commands run and say what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from page_runs import run_page


@pytest.mark.extended
def test_the_page_shows_what_its_commands_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page("registry.md", "# A registry", monkeypatch)
