"""What `--restart` says of crashes, in the unit of the model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainwright.core.progress import Progress
from trainwright.run.supervise.crash_diagnosis import describe_death, describe_loop
from trainwright.run.supervise.shared_progress import Position

DONE = Position(Progress(step=30, attempted=30), 0)
BEGUN = Position(Progress(), 0)


def run_of(folder: Path, kind: str) -> Path:
    (folder / "plan.json").write_text(json.dumps({"contract": {"model": {"kind": kind}}}))
    return folder


@pytest.mark.parametrize(
    ("kind", "position", "said"),
    [
        ("mlp", DONE, "after step 30"),
        ("boosting", DONE, "after tree 30 was kept"),
        ("boosting", BEGUN, "before a tree was kept"),
        ("linear", BEGUN, "with nothing kept yet"),
    ],
)
def test_a_death_is_placed_in_the_unit_of_the_model(
    kind: str, position: Position, said: str, tmp_path: Path
) -> None:
    assert describe_death(run_of(tmp_path, kind), position) == said


def test_a_death_before_the_folder_has_no_step() -> None:
    assert describe_death(None, BEGUN) == "before it began"


def test_a_crash_loop_of_trees_names_no_step(tmp_path: Path) -> None:
    said = describe_loop(run_of(tmp_path, "boosting"), DONE)
    assert said.startswith("three crashes after tree 30 was kept: look at the memory")
    assert "step" not in said.replace(str(tmp_path), "")
    assert f"trainwright resume {tmp_path}" in said
