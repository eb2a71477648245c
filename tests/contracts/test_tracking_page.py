"""The page of trackers: its contract trains, and its commands print what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from command import write_rows
from guide import GUIDE
from page_runs import run_page
from trainwright.contract.sections.run_settings import Tracking

PAGE = "tracking.md"


@pytest.mark.extended
@pytest.mark.torch
def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "rows.csv")
    run_page(PAGE, "# Trackers", monkeypatch)


def test_the_page_lists_every_key() -> None:
    text = (GUIDE / PAGE).read_text(encoding="utf-8")
    keys = set(Tracking.model_fields) - {"windows", "inspect"}
    assert keys == {line.split("`")[1] for line in text.splitlines() if line.startswith("| `")} - {
        "gradient_sizes"
    }
