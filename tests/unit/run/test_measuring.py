"""What a contract says of windows, from the command to the run folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from command import NETWORK, events_of_one, project_in, train_one
from trainwright.tracking.telemetry_file import WindowLine, read_windows

pytestmark = pytest.mark.torch

WINDOWS = Path("runs/one/windows.jsonl")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, NETWORK)


def train(*settings: str) -> list[WindowLine]:
    ran = train_one(*settings)
    assert ran.code in (0, 3), ran.err
    return read_windows(WINDOWS)


@pytest.mark.extended
def test_a_window_has_rates_memory_and_the_norms_of_each_group(project: Path) -> None:
    lines = train("tracking.windows.every_n_steps=5")
    steps = len(Path("runs/one/signals.jsonl").read_text().splitlines())
    assert [line.step for line in lines] == list(range(5, steps + 1, 5))
    for line in lines:
        assert line.numbers["rows_per_second"] > 0
        assert line.numbers["host_memory_bytes"] > 1e6
        assert 0 < line.numbers["mfu_measured"] < 1
        for what in ("weight_norm", "update_ratio", "gradient_norm"):
            assert line.numbers[f"{what}/body.0"] > 0


@pytest.mark.extended
def test_off_writes_nothing_and_trains_the_same(project: Path) -> None:
    train("tracking.windows.every_n_steps=3")
    measured = Path("runs/one/signals.jsonl").read_text().splitlines()
    Path("runs/one").rename("runs/other")
    assert train("tracking.windows=off") == []
    assert not WINDOWS.exists()
    plain = Path("runs/one/signals.jsonl").read_text().splitlines()
    losses = [[json.loads(line)["loss"] for line in lines] for lines in (measured, plain)]
    assert losses[0] == losses[1]


@pytest.mark.extended
def test_trouble_is_told_on_the_screen_and_in_the_events(project: Path) -> None:
    settings = (
        "training.num_epochs=45",
        "training.early_stopping=off",
        "training.optimizer.learning_rate=1e-9",
        "training.scheduler={name: constant}",
        "tracking.windows.every_n_steps=25",
    )
    ran = train_one(*settings)
    assert ran.code in (0, 3), ran.err
    (low,) = [one for one in events_of_one("noted") if one["kind"] == "learning_rate_low"]
    assert low["message"] in ran.err
    assert low["numbers"]["update_ratio"] < 1e-5
    assert low["numbers"]["step"] <= 225


@pytest.mark.extended
def test_what_is_inspected_stands_in_every_nth_window(project: Path) -> None:
    lines = train(
        "tracking.windows.every_n_steps=4",
        "tracking.inspect.every_n_windows=3",
        "tracking.inspect.which=[activations, silent_units, gradient_sizes]",
    )
    inspected = [line.step for line in lines if "silent_share/body.1" in line.numbers]
    assert inspected == [line.step for line in lines if line.step % 12 == 0]
    assert inspected
    assert {name.partition("/")[0] for name in lines[2].numbers} >= {
        "activation_mean",
        "activation_zeros",
        "silent_share",
        "gradient_sizes",
    }


def test_windows_of_tables_are_longer_by_themselves(project: Path) -> None:
    train()
    plan = json.loads(Path("runs/one/plan.json").read_text())
    assert plan["contract"]["tracking"]["windows"]["every_n_steps"] == 200
    (choice,) = [one for one in plan["choices"] if one["path"] == "tracking.windows.every_n_steps"]
    assert choice["reason"] == "a step over a table is short"
