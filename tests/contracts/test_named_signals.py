"""Signals of one's own: the script of the guide does what it says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.torch

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "script" / "named_signals.py"


def test_the_script_reads_what_it_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(SCRIPT))
    reason, steps, last = capsys.readouterr().out.splitlines()
    assert "200" in reason
    assert steps.startswith("200 steps; within one: ")
    assert last.endswith("in the last window")
