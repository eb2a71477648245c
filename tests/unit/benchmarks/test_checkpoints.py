"""The benchmark of checkpoints measures what it says, on a state of a few kilobytes."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

import checkpoints

pytestmark = pytest.mark.torch


def test_every_row_is_measured_and_every_figure_has_its_goal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "quiet", lambda: None)
    rounds = checkpoints.Rounds(tmp_path, checkpoints.Training(1, rows=2))
    for step in range(2):
        rounds.once(step)
    assert len(rounds.seconds) == 14
    assert all(len(taken) == 2 for taken in rounds.seconds.values())
    text = checkpoints.report(rounds.seconds, 2**20)
    assert "at most 1.3" in text
    assert "at least 500 MB/s" in text


def test_a_missed_goal_is_shown() -> None:
    others = ("torch.save", "torch.save, forced to the disk", "ours, not forced to the disk")
    steps = (
        checkpoints.STEP,
        checkpoints.SAVED_STEP,
        checkpoints.PASSES,
        checkpoints.SAVED_PASSES,
    )
    seconds = {name: [1.0] for name in (*others, *steps, "load, verified")}
    slow = seconds | {"ours": [2.0], "ours, in the background: stall": [0.05]}
    text = checkpoints.report(slow, 2**30)
    assert "| 2.00 | at most 1.3, missed |" in text
    assert "| 2.5% | at most 5% |" in text
    assert "at least 500 MB/s |" in text


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    assert checkpoints.ratio([2.0, 9.0, 4.0], [1.0, 1.0, 1.0]) == 4.0
