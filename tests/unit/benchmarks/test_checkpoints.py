"""The benchmark of checkpoints measures what it says, on a state of a few kilobytes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

BENCHMARKS = str(Path(__file__).resolve().parents[3] / "benchmarks")

pytestmark = pytest.mark.torch


def test_every_row_is_measured_and_every_figure_has_its_goal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    sys.modules.pop("checkpoints", None)
    import checkpoints

    monkeypatch.setattr(checkpoints, "quiet", lambda: None)
    rounds = checkpoints.Rounds(tmp_path, checkpoints.made(1))
    for step in range(2):
        rounds.once(step)
    assert len(rounds.seconds) == 8
    assert all(len(taken) == 2 for taken in rounds.seconds.values())
    text = checkpoints.report(rounds.seconds, 1)
    assert "at most 1.3" in text
    assert "at least 500 MB/s" in text


def test_a_ratio_is_the_median_of_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import checkpoints

    assert checkpoints.ratio([2.0, 9.0, 4.0], [1.0, 1.0, 1.0]) == 4.0
