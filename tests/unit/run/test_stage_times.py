"""The `time` line of a training adds up to its total; its stages are in evaluation.json."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from command import CONTRACT, command, inside, write_project
from trainwright.core.files import read_json
from trainwright.run import measured_choices
from trainwright.run.audit_data import Looked
from trainwright.run.prepare.prepare_run import Ready
from trainwright.run.screen import StageTimes

PAUSE_SECONDS = 0.4


def shown(line: str) -> dict[str, float]:
    pairs = (part.strip().rpartition(" ") for part in line.split("·"))
    return {name: float(value.removesuffix("s")) for name, _, value in pairs}


def test_stages_other_time_and_total_add_up() -> None:
    stages = StageTimes(time.monotonic() - 5.0)
    stages.seconds.update(read=1.25, train=2.5)
    line = shown(stages.line())
    assert list(line) == ["read", "train", "other", "total"]
    assert line["total"] == pytest.approx(5.0, abs=1.0)
    assert line["read"] + line["train"] + line["other"] == pytest.approx(line["total"], abs=0.21)


def test_without_other_time_only_the_total_follows() -> None:
    stages = StageTimes(time.monotonic() - 1.0)
    stages.seconds["read"] = 1.0
    assert list(shown(stages.line())) == ["read", "total"]


def test_checks_of_the_data_are_a_stage_of_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On wide tables they take more time than the training."""
    look = measured_choices.look_at_data

    def slow(ready: Ready) -> Looked:
        time.sleep(PAUSE_SECONDS)
        return look(ready)

    monkeypatch.setattr(measured_choices, "look_at_data", slow)
    with inside(tmp_path):
        write_project(tmp_path, CONTRACT)
        ran = command("train", "small.yaml", "--run", "one")
        assert ran.code in (0, 3), ran.err
        seconds = read_json(Path("runs/one/evaluation.json"))["seconds"]
    (line,) = (line for line in ran.err.splitlines() if line.startswith("time "))
    named = shown(line.removeprefix("time"))
    assert seconds["look"] >= PAUSE_SECONDS
    assert named["look"] >= PAUSE_SECONDS
    total = named.pop("total")
    assert sum(named.values()) == pytest.approx(total, abs=0.05 * (len(named) + 2))
