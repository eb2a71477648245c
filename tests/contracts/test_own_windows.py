"""Windows in somebody's own loop: the script is the one in the guide, and does what it says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.torch

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples" / "script" / "own_windows.py"


def test_the_guide_shows_the_script() -> None:
    page = (ROOT / "docs" / "guide" / "signals.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert shown == SCRIPT.read_text(encoding="utf-8")


def test_a_rate_that_is_too_low_is_told_once_and_every_window_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(SCRIPT))
    low, windows = capsys.readouterr().out.splitlines()
    assert low.startswith("the learning rate looks too low")
    assert windows.startswith("8 windows; first layer: ")
