"""`training.checkpointing`, from the contract to what stays in the run's folder."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from command import command, events_of_one, project_in, train_one, with_layers
from trainwright.checkpoint.files.file_entry import step_of
from trainwright.checkpoint.storages.catalog import list_checkpoints
from trainwright.core.progress import StopFlag
from trainwright.run.learners.network_learner import NetworkLearner
from trainwright.run.prepare.prepare_run import make_ready
from trainwright.run.request import Request
from trainwright.run.run_context import RunContext
from trainwright.run.screen import StageTimes, StreamScreen
from trainwright.tracking.events import Ended, Event
from trainwright.tracking.run_folder import RunFolder

pytestmark = pytest.mark.torch

NETWORK = (
    with_layers("[16, 8]")
    + "training:\n  num_epochs: 6\n  batch_size: 32\n  early_stopping: {metric: val_loss}\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, NETWORK)


def train(*settings: str) -> str:
    ran = train_one(*settings)
    assert ran.code in (0, 3), ran.err
    return ran.err


def listed() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(command("runs", "checkpoints", "one", "--json").out)
    return found


def validations() -> dict[int, dict[str, float]]:
    return {event["step"]: event["values"] for event in events_of_one("validated")}


@pytest.mark.parametrize(("ranked_by", "best"), [("auto", min), ("val_roc_auc", max)])
def test_the_model_is_the_best_by_what_it_is_ranked_by(
    ranked_by: str, best: Any, project: Path
) -> None:
    said = train(f"training.checkpointing={{rank_by: {ranked_by}, keep_top_k: 1}}")
    name = "val_loss" if ranked_by == "auto" else ranked_by
    values = {step: value[name] for step, value in validations().items()}
    wanted = best(values, key=lambda step: (values[step], -step if best is max else step))
    assert f"weights of step {wanted:,}" in said
    (one,) = [one for one in listed() if one["best"]]
    assert (one["step"], one["score"]) == (wanted, values[wanted])


class Damaging:
    """Cuts the best checkpoint short when the training has ended."""

    def __init__(self, checkpoints: Path) -> None:
        self.checkpoints = checkpoints
        self.best: list[str] = []

    def observe(self, event: Event) -> None:
        if isinstance(event, Ended):
            scored = [one for one in list_checkpoints(self.checkpoints) if one.step]
            self.best = [one.name for one in sorted(scored, key=lambda one: one.score)]
            weights = self.checkpoints / self.best[0] / "model.safetensors"
            weights.write_bytes(weights.read_bytes()[:-1])


def test_that_the_best_does_not_verify_is_told_where_the_next_is_taken(project: Path) -> None:
    ready = make_ready(Request(Path("small.yaml")), StageTimes(), StreamScreen(io.StringIO()))
    folder = RunFolder.create(Path("runs"), "one")
    watch = Damaging(folder.checkpoints)
    run = RunContext(folder, (watch,), StreamScreen(io.StringIO()), StopFlag())
    fitted = NetworkLearner(ready.plan.contract.model, ready.plan).fit(ready.prepared, run)
    best, second = watch.best[:2]
    assert fitted.reason.endswith(f"weights of step {step_of(second)}")
    (warning,) = fitted.warnings
    assert warning.startswith(f"a better checkpoint than {second} is not used: {best}: ")


@pytest.mark.extended
def test_what_the_contract_says_stays(project: Path) -> None:
    train("training.checkpointing={save_every_n_steps: 5, keep_every_n_steps: 10, keep_last: 4}")
    steps = [one["step"] for one in listed()]
    last = max(validations())
    assert set(range(10, last + 1, 10)) <= set(steps)
    assert {s for s in range(5, last + 1) if s % 5 == 0 or s in validations()} >= set(steps[1:])
    shown = command("runs", "checkpoints", "one").out.splitlines()
    assert shown[0].split() == ["step", "score", "size", "kept", "as"]
    assert len(shown) == len(steps) + 1
    assert sum("newest" in line for line in shown) == 1


@pytest.mark.extended
def test_a_pin_from_the_command(project: Path) -> None:
    train("training.checkpointing.keep_top_k=1")
    step = listed()[0]["step"]
    assert command("runs", "pin", "one", str(step)).out == f"step {step} stays\n"
    assert [one["step"] for one in listed() if one["pinned"]] == [step]
    absent = command("runs", "pin", "one", "99999")
    assert absent.code == 2
    assert "found: step 99999 of run one" in absent.err
    assert f"expected: a step with a checkpoint: {step}" in absent.err
    assert command("runs", "unpin", "one", str(step)).code == 0
    assert command("runs", "unpin", "one", str(step)).code == 2


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("rank_by: val_rmse", "metric of regression"),
        ("rank_by: f1", "did you mean val_f1?"),
        ("keep_last: 1", "keep_last"),
        ("save_every_minutes: measured", "add for example expected_hours_between_failures: 24"),
        ("save_every_minutes: 5, expected_hours_between_failures: 6", "has no effect"),
    ],
)
def test_mistakes(setting: str, says: str, project: Path) -> None:
    ran = command(
        "check", "small.yaml", "--set", f"training.checkpointing={{{setting.strip('{}')}}}"
    )
    assert ran.code == 2
    assert says in ran.err


@pytest.mark.extended
def test_saves_by_the_clock(project: Path) -> None:
    train("training.checkpointing={save_every_minutes: 1e-9, keep_last: 50}")
    steps = [one["step"] for one in listed()]
    assert len(steps) > len(validations()) + 5


@pytest.mark.extended
def test_saves_as_often_as_is_best_between_failures(project: Path) -> None:
    train("training.checkpointing={expected_hours_between_failures: 6}")
    choices = json.loads(Path("runs/one/plan.json").read_text())["choices"]
    (choice,) = [c for c in choices if c["path"].endswith("save_every_minutes")]
    assert (choice["value"], choice["reason"]) == (
        "measured",
        "the machine lasts 6 hours on average",
    )
