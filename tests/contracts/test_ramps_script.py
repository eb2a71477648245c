"""The script of the guide's page on ramps and averages does what it says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.torch

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "script" / "ramps_and_averages.py"


def test_the_mean_is_better_than_what_it_is_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(SCRIPT))
    said = capsys.readouterr().out
    # 3,584 rows an epoch: steps of 64 to row 2,048, of 128 to row 4,096, then of 256.
    found = re.fullmatch(
        r"(\d+) steps; noise scale (\d+) rows\n"
        r"loss of the trained weights (.*), of the mean of 8 (.*)\n",
        said,
    )
    steps, noise, trained, averaged = map(float, found.groups())
    assert steps == (32 + 12) + (4 + 12) + 18 * 14
    assert noise > 0
    assert averaged < trained
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(SCRIPT))
    assert capsys.readouterr().out == said, "from its last checkpoint it ends as it did"
