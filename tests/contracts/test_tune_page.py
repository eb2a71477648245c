"""The page of searches: its commands run and say what it shows, and its Python runs."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from guide import GUIDE, blocks
from page_runs import run_page

pytest.importorskip("optuna")


@pytest.mark.extended
def test_the_page_shows_what_its_commands_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    run_page("tune.md", "## A first search", monkeypatch)
    (code,) = blocks(GUIDE / "tune.md", "python")
    contract = Path("contract.yaml").read_text(encoding="utf-8")
    Path("contract.yaml").write_text(contract.replace("trials: 12", "trials: 2"), encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, "tune.md", "exec"), {})
    assert "model.num_leaves" in printed.getvalue()
