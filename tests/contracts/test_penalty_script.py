"""The example of a gradient penalty is the one in the guide, and it runs."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples" / "script" / "penalty.py"


def test_the_guide_shows_the_script() -> None:
    page = (ROOT / "docs" / "guide" / "losses.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert shown == SCRIPT.read_text(encoding="utf-8")


@pytest.mark.torch
def test_it_learns(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    runpy.run_path(str(SCRIPT))
    kind, loss = capsys.readouterr().out.split("; loss ")
    assert kind == "finished"
    assert float(loss) < 0.1
