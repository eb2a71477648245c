"""The example of a gradient penalty runs."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "script" / "penalty.py"


@pytest.mark.torch
def test_it_learns(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    runpy.run_path(str(SCRIPT))
    kind, loss = capsys.readouterr().out.split("; loss ")
    assert kind == "finished"
    assert float(loss) < 0.1
