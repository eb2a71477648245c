"""A training that overfits is told so, once, on the screen, in the events and in the report."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

pytest.importorskip("torch")

from command import command, inside
from trainwright.core.progress import Progress, StopFlag
from trainwright.run.learners.generalisation import note_fit, pair_losses
from trainwright.run.run_context import RunContext
from trainwright.run.screen import StreamScreen
from trainwright.tracking.event_log import EventLog, read_events
from trainwright.tracking.events import Ended
from trainwright.tracking.run_folder import RunFolder

pytestmark = pytest.mark.torch

CONTRACT = """
data: {path: rows.csv, target: y, positive: "yes"}
model: {kind: mlp, hidden: [64, 64], dropout: 0.0}
training: {num_epochs: 20, batch_size: 32, validate_every_n_steps: 14, early_stopping: off,
           optimizer: {learning_rate: 0.005}}
metric: {target: 0.5, resamples: 100}
"""


@pytest.mark.extended
def test_overfitting_is_told_once(tmp_path: Path) -> None:
    draw = random.Random(0)
    rows = [[draw.gauss(0, 1) for _ in range(8)] for _ in range(300)]
    lines = [",".join([*(f"x{i}" for i in range(8)), "y"])]
    for row in rows:
        lines.append(",".join([*map(str, row), "yes" if row[0] + draw.gauss(0, 2) > 0 else "no"]))
    with inside(tmp_path):
        Path("rows.csv").write_text("\n".join(lines) + "\n")
        Path("small.yaml").write_text(CONTRACT)
        ran = command("train", "small.yaml", "--run", "one")
        assert "note      overfitting since step " in ran.err
        assert "overfitting since step" in Path("runs/one/report.html").read_text()
        folder = RunFolder(Path("runs/one"))
        screen = io.StringIO()
        run = RunContext(folder, (EventLog(folder.events),), StreamScreen(screen), StopFlag())
        note_fit(run, Ended(Progress(), "finished", ""))
        assert screen.getvalue() == ""
        told = [event for event in read_events(folder.events) if event.get("kind") == "overfitting"]
        assert len(told) == 1


def test_a_validation_is_paired_with_the_steps_since_the_one_before() -> None:
    events = [
        {"event": "validated", "step": 2, "values": {"val_loss": 0.9}},
        {"event": "validated", "step": 4, "values": {"val_loss": 0.7}},
        {"event": "resumed", "step": 2},
        {"event": "validated", "step": 4, "values": {"val_loss": 0.8}},
    ]
    signals = {"step": [1, 2, 3, 4], "loss": [4.0, 2.0, 1.0, float("nan")]}
    assert [tuple(one) for one in pair_losses(events, signals)] == [(2, 0.9, 3.0), (4, 0.8, 1.0)]
