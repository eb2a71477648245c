"""The table of the time to accuracy."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

import fashion
from made_data import make_images

pytestmark = pytest.mark.torch

ROW = {"seed": 0, "wall_seconds": 300.0, "cpu_seconds": 500.0, "training_seconds": 280.0}


def test_a_run_that_did_not_reach_it_says_so() -> None:
    reached = {**ROW, "reached_seconds": 200.0, "validation": 0.935, "test": 0.932}
    missed = {**ROW, "seed": 1, "reached_seconds": None, "validation": 0.929, "test": 0.930}
    text = fashion.show([reached, missed])
    assert "| 0 | 200 s |" in text
    assert "| 1 | not reached |" in text
    assert "Mean test accuracy 0.9310 (goal: at least 0.93)." in text
    assert "(goal: at least 0.93, missed)." in fashion.show([{**missed, "test": 0.929}])


@pytest.mark.slow
def test_a_run_is_a_whole_process(tmp_path: Path) -> None:
    make_images(tmp_path / "data")
    small = ["model.width=8", "training.num_epochs=2", "data.classes=[a, b, c]", "slices=[]"]
    more = ["training.batch_size=16", "metric.resamples=100"]
    row = fashion.run_seed(tmp_path / "data", tmp_path, 1, 3, [*small, *more])
    assert row["seed"] == 3
    assert 0 < row["training_seconds"] < row["wall_seconds"]
    assert 0 <= row["test"] <= 1
    assert row["reached_seconds"] is None or row["reached_seconds"] <= row["training_seconds"]
