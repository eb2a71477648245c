"""`data.num_workers` from the contract to the plan of the run."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

pytest.importorskip("torch")

from command import command, inside
from made_data import make_images
from trainwright.planner.resolve import compute_choices
from trainwright.run.prepare.prepare_run import make_ready
from trainwright.run.request import Request
from trainwright.run.screen import StageTimes, StreamScreen
from trainwright.run.trial import worker_trial

pytestmark = pytest.mark.torch

CONTRACT = """
data: {kind: images, path: pictures, augment: {flip: true, crop: 2, cutout: 3}}
model: {kind: resnet, width: 4, blocks: [1]}
training: {num_epochs: 2, batch_size: 16, early_stopping: off}
metric: {target: 0.1, resamples: 100}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    make_images(tmp_path / "pictures")
    (tmp_path / "work.yaml").write_text(CONTRACT)
    monkeypatch.setattr("trainwright.planner.plan_facts.os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(worker_trial, "_TURN_SECONDS", 0.05)
    with inside(tmp_path):
        yield tmp_path


def recorded(run: str) -> dict[str, object]:
    plan = json.loads(Path(f"runs/{run}/plan.json").read_text())
    (choice,) = (one for one in plan["choices"] if one["path"] == "data.num_workers")
    assert plan["contract"]["data"]["num_workers"] == choice["value"]
    return choice


@pytest.mark.extended
def test_a_short_run_gets_none_with_the_numbers(project: Path) -> None:
    ran = command("train", "work.yaml", "--run", "one")
    assert ran.code in (0, 3), ran.err
    choice = recorded("one")
    assert choice["value"] == 0
    assert choice["measured"]["seconds_of_the_run"] > 0
    assert 0 < choice["measured"]["share"] < 1


@pytest.mark.extended
def test_what_is_measured_is_chosen_and_kept(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compute_choices, "_LEAST_SECONDS", 0.0)
    monkeypatch.setattr(compute_choices, "_LEAST_SHARE", 0.0)
    monkeypatch.setattr(compute_choices, "MARGIN", 0.0)
    ran = command("train", "work.yaml", "--run", "one", "--set", "training.stop.max_steps=4")
    assert ran.code in (0, 3), ran.err
    choice = recorded("one")
    rates = choice["measured"]["rows_per_second"]
    assert set(rates) == {"0", "1", "2"}
    assert choice["value"] == int(max(rates, key=rates.get))
    assert "times as fast" in choice["reason"]


def test_workers_are_measured_with_the_batches_of_most_of_the_run(project: Path) -> None:
    words = ("training.ramps.batch={start: 4}", "data.augment={flip: true}")
    ready = make_ready(Request(Path("work.yaml"), words), StageTimes(), StreamScreen(io.StringIO()))
    rehearsal = worker_trial.Rehearsal(ready.plan, ready.prepared)
    rows: list[int] = []
    with mock.patch.object(rehearsal, "_pass", lambda batch: rows.append(len(batch[0]))):
        rehearsal.rows_per_second((0,))
    # The last of an epoch has 8.
    assert set(rows) == {16, 8}
