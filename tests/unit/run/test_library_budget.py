"""A budget and libraries that fit in one go: their time is measured, not taken to be nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from command import CONTRACT, command, inside, write_project

FOREST = CONTRACT.replace("kind: boosting", "kind: forest").replace("max_trees", "trees")


@pytest.mark.extended
def test_a_fit_that_cannot_end_in_time_is_refused(tmp_path: Path) -> None:
    write_project(tmp_path, FOREST)
    with inside(tmp_path):
        words = ("train", "small.yaml", "--set", "budget.hours=0.02")
        late = command(*words, "--run", "late", "--set", "model.trees=1000000")
        assert late.code == 2, late.err
        assert not Path("runs/late").exists()
        assert command(*words, "--run", "early").code in (0, 3)
