"""Windows in somebody's own loop: the script of the guide does what it says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.torch

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "script" / "own_windows.py"


def test_a_rate_that_is_too_low_is_told_once_and_every_window_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(SCRIPT))
    low, windows = capsys.readouterr().out.splitlines()
    assert low.startswith("the learning rate looks too low")
    assert windows.startswith("8 windows; first layer: ")
