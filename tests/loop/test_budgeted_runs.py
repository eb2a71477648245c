"""Runs whose plan was made for their budget: by planned numbers, never by elapsed ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import final

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from command import CONTRACT, command, inside, project_in, with_layers  # noqa: E402
from made_data import write_token_project  # noqa: E402
from made_pictures import write_folder  # noqa: E402
from stopped_runs import cut_run_of, run_of  # noqa: E402
from trainwright.core.files import Json, read_json  # noqa: E402
from trainwright.doctor.verify_run import verify_run  # noqa: E402
from trainwright.engine.stopping import stop_rules  # noqa: E402
from trainwright.planner.budget_allotment import Rows, Speeds  # noqa: E402
from trainwright.predictor.predictor import Predictor  # noqa: E402
from trainwright.run import plan_budget  # noqa: E402
from trainwright.run.prepare.prepare_run import Ready  # noqa: E402
from trainwright.tracking.event_log import read_events  # noqa: E402
from trainwright.tracking.run_folder import RunFolder  # noqa: E402
from trainwright.tracking.signals import read_signals  # noqa: E402

pytestmark = pytest.mark.torch

TEXT = """
data: {kind: tokens, path: text.txt}
model: {kind: gpt, layers: 1, heads: 2, width: 16, context: 16}
metric: {target: dummy, resamples: 100}
training: {mixed_precision: fp32, compute: {compile: "off", matrix_products: exact}}
"""
IMAGES = """
task: classification
data: {kind: images, path: ., validation: 0.2, test: 0.2, decoding: {size: [12, 12]}}
model: {kind: resnet, width: 8, blocks: [1, 1, 1], stem: half}
metric: {target: dummy, resamples: 100}
training: {mixed_precision: fp32, compute: {compile: "off", memory_format: contiguous}}
"""
SLOW = Speeds(spent=1.0, step=1.0, start=1.0, save=0.1, validation_row=0.001, judged_row=0.001)
"""Seconds of a machine on which a step takes one."""
MINUTE = "budget.hours=0.0166666666666"


@final
class SlowedSteps:
    """A clock of the stop rules, who read it at each step: it takes 2 seconds, not 1 as planned."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def monotonic(self) -> float:
        self._seconds += 2.0
        return self._seconds


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is measured to be slow, whatever it is."""
    monkeypatch.setattr(plan_budget, "_speeds", lambda *_: SLOW)
    measured = plan_budget.fit_into_budget

    def at_one(document: object, plan: object, speeds: Speeds, *rest: object) -> object:
        return measured(document, plan, replace(speeds, spent=1.0, judging=0.0, load=1.0), *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(plan_budget, "fit_into_budget", at_one)


def text_project(folder: Path, more: str = "") -> Path:
    return write_token_project(folder, TEXT + more, 400)


def record_of(folder: Path) -> Json:
    return read_json(folder / "record.json")["budget"]


@pytest.mark.usefixtures("slow")
def test_a_schedule_that_is_open_ends_with_the_budget(tmp_path: Path) -> None:
    folder = run_of(text_project(tmp_path), "one", MINUTE)
    planned = record_of(folder)["planned"]
    assert 10 < planned["steps"] < 60 < planned["steps_asked"]
    assert planned["learning_rate_at_end"] == pytest.approx(0.01)
    assert planned["ratio"] <= 0.9
    rates = read_signals(folder / "signals.jsonl")["learning_rate"]
    assert len(rates) == planned["steps"]
    assert rates[-1] == pytest.approx(0.01 * max(rates), rel=1e-3)
    plan = read_json(folder / "plan.json")
    stop = plan["contract"]["training"]["stop"]
    assert (stop["max_steps"], stop["schedule_spans"]) == (planned["steps"], "limits")
    assert plan["budget"]["measured"]["step"] == SLOW.step
    assert record_of(folder)["used_ratio"] > 0


@pytest.mark.usefixtures("slow")
def test_a_resumed_run_keeps_its_allotment_and_its_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = text_project(tmp_path, 'tracking: {windows: "off"}\n')
    whole = run_of(contract, "whole", MINUTE)
    cut = cut_run_of(contract, 9, MINUTE)
    before = read_json(cut / "plan.json")
    # Another speed now: a plan that was made again would be another one.
    monkeypatch.setattr(plan_budget, "_speeds", lambda *_: replace(SLOW, step=3.0))
    run_of(contract, "cut", MINUTE, resume=True)
    after = read_json(cut / "plan.json")
    assert after["budget"] == before["budget"]
    assert after["contract"] == before["contract"]
    assert (cut / "bundle/network.safetensors").read_bytes() == (
        whole / "bundle/network.safetensors"
    ).read_bytes()


@pytest.mark.extended
@pytest.mark.usefixtures("slow")
def test_written_epochs_are_kept_and_said_not_to_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = text_project(tmp_path)
    settings = ("training.num_epochs=20", "training.batch_size=32", "training.stop.max_steps=400")
    settings = (*settings, "training.scheduler.warmup_steps=201")
    folder = run_of(contract, "one", MINUTE, *settings)
    said = capsys.readouterr().err
    assert "steps" in said
    (line,) = [one for one in said.splitlines() if "only" in one and "fit" in one]
    assert "the warmup of 201 steps alone 3m21s" in line
    assert "training.num_epochs: auto" in line
    assert "or write budget.hours: 0.09" in line
    decided = read_json(folder / "plan.json")["contract"]["training"]
    assert (decided["num_epochs"], decided["stop"]["max_steps"]) == (20, 400)
    assert decided["stop"]["schedule_spans"] == "epochs"


@pytest.mark.extended
@pytest.mark.usefixtures("slow")
def test_a_shortened_run_makes_its_planned_validations(tmp_path: Path) -> None:
    """As many as the whole run would make, but closer together."""
    contract = text_project(tmp_path)
    folder = run_of(contract, "one", MINUTE, "training.num_epochs=10", "training.batch_size=32")
    planned = record_of(folder)["planned"]
    assert planned["steps"] < planned["steps_asked"]
    every = read_json(folder / "plan.json")["contract"]["training"]["validate_every_n_steps"]
    assert planned["validations"] == 10 == -(-planned["steps"] // every)


def test_a_cut_before_the_schedule_ends_stands_in_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = plan_budget.fit_into_budget
    monkeypatch.setattr(
        plan_budget, "fit_into_budget", lambda *given: replace(fit(*given), training_seconds=1e-6)
    )
    contract = text_project(tmp_path)
    folder = run_of(contract, "one", "budget.hours=1", "training.num_epochs=2")
    warnings = read_json(folder / "evaluation.json")["evaluation"]["warnings"]
    assert any("the budget cut the training at step 0 of" in one for one in warnings)


@pytest.mark.extended
def test_slow_rows_are_judged_and_validated_as_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = replace(SLOW, step=0.2, validation_row=0.05, judged_row=0.15)
    monkeypatch.setattr(plan_budget, "_speeds", lambda *_: rows)
    monkeypatch.setattr("trainwright.planner.budget_allotment.LEAST_JUDGED", 5)
    monkeypatch.setattr("trainwright.planner.budget_allotment.LEAST_VALIDATED", 5)
    contract = write_token_project(tmp_path, TEXT, 20_000)
    folder = run_of(contract, "one", "budget.hours=0.01")
    planned = record_of(folder)["planned"]
    judged = read_json(folder / "evaluation.json")["evaluation"]
    assert judged["rows"] == planned["test_rows"]
    of = read_json(folder / "data/split.json")["rows"]["test"]
    assert judged["rows"] < of
    assert any(f"judged on {planned['test_rows']:,} of" in one for one in judged["warnings"])
    rows_kept = read_json(folder / "plan.json")["contract"]["training"]["validation"]["rows"]
    assert rows_kept == planned["validation_rows"]
    validated = [one for one in read_events(folder / "events.jsonl") if one["event"] == "validated"]
    assert len(validated) == planned["validations"]
    assert not [one for one in verify_run(RunFolder(folder)) if one.status == "broken"]


@pytest.mark.usefixtures("slow")
def test_judging_shrinks_to_what_is_left_when_the_training_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_budget, "LEAST_JUDGED", 7)
    contract = write_token_project(tmp_path, TEXT, 20_000)
    waited = plan_budget.limit_test_rows
    late = 59.0

    def judged_late(ready: Ready, model: Predictor, elapsed: float) -> Rows:
        return waited(ready, model, late + elapsed)

    monkeypatch.setattr(plan_budget, "limit_test_rows", judged_late)
    folder = run_of(contract, "one", MINUTE)
    judged = read_json(folder / "evaluation.json")["evaluation"]
    assert read_json(folder / "plan.json")["budget"]["test_rows"] == "all"
    assert judged["rows"] == 7
    assert any("judged on 7 of" in one for one in judged["warnings"])


def test_slower_steps_are_fewer_and_end_their_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop_rules, "time", SlowedSteps())
    monkeypatch.setattr(plan_budget, "_speeds", lambda *_: SLOW)
    contract = text_project(tmp_path, 'tracking: {windows: "off"}\n')
    folder = run_of(contract, "one", MINUTE)
    planned = record_of(folder)["planned"]["steps"]
    rates = read_signals(folder / "signals.jsonl")["learning_rate"]
    assert 10 < len(rates) < 0.8 * planned
    assert rates[-1] == pytest.approx(0.01 * max(rates), rel=1e-3)
    judged = read_json(folder / "evaluation.json")["evaluation"]
    assert any("its schedule ended there" in one for one in judged["warnings"])


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, CONTRACT)


def test_a_budget_that_is_too_small_is_refused_before_anything_is_written(table: Path) -> None:
    ran = command("train", "small.yaml", "--run", "one", "--set", "budget.hours=0.00001")
    assert ran.code == 2
    assert "budget.hours" in ran.err
    assert "write budget.hours: " in ran.err
    assert "until now load" in ran.err
    assert not (table / "runs").exists()


def test_trees_that_do_not_fit_are_not_begun(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees = Speeds(spent=1.0, step=1.0)
    monkeypatch.setattr(plan_budget, "_speeds", lambda *_: trees)
    contract = CONTRACT.replace("  max_trees: 5\n", "")
    (table / "small.yaml").write_text(contract)
    ran = command("train", "small.yaml", "--run", "one", "--set", MINUTE)
    assert ran.code in (0, 3), ran.err
    made = read_json(Path("runs/one/plan.json"))["contract"]["model"]["max_trees"]
    assert 30 < made < 60
    assert f"{made} trees of 2,000 trees fit" in ran.err


@pytest.mark.extended
def test_a_small_table_with_time_enough_is_trained_in_full(table: Path) -> None:
    (table / "small.yaml").write_text(
        with_layers("[8]") + "training: {num_epochs: 3, batch_size: 32}\n"
    )
    ran = command("train", "small.yaml", "--run", "one", "--set", "budget.hours=0.1")
    assert ran.code in (0, 3), ran.err
    assert "fit" in ran.err
    record = record_of(Path("runs/one"))
    assert record["planned"]["steps"] == record["planned"]["steps_asked"]
    assert record["planned"]["ratio"] < 0.9
    assert record["limit_seconds"] == pytest.approx(360.0)
    assert read_json(Path("runs/one/plan.json"))["budget"]["settings"] == {}


@pytest.mark.extended
def test_images_end_their_schedule(tmp_path: Path) -> None:
    write_folder(tmp_path, 60)
    contract = tmp_path / "contract.yaml"
    contract.write_text(IMAGES)
    with inside(tmp_path):
        folder = run_of(contract, "one", "budget.hours=0.01")
    planned = record_of(folder)["planned"]
    assert planned["learning_rate_at_end"] == pytest.approx(0.01)
    assert 0 < planned["ratio"] <= 1


def test_measuring_leaves_random_numbers_and_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With time enough the run is the run without a budget, bit for bit."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    contract = text_project(tmp_path)
    settings = ("training.num_epochs=1", "training.batch_size=32")
    weights = [
        (run_of(contract, name, *settings, *more) / "bundle/network.safetensors").read_bytes()
        for name, more in (("free", ()), ("held", ("budget.hours=1",)))
    ]
    assert weights[0] == weights[1]
    assert not list((tmp_path / "scratch").iterdir())


@pytest.mark.extended
def test_the_same_rows_are_validated_each_time(tmp_path: Path) -> None:
    contract = write_token_project(tmp_path, TEXT, 8000)
    settings = ("training.num_epochs=1", "training.batch_size=32", "training.stop.max_steps=4")
    settings = (*settings, "training.optimizer.learning_rate=1e-30")
    settings = (*settings, "training.validate_every_n_steps=1")

    def losses(name: str, rows: str) -> list[float]:
        folder = run_of(contract, name, *settings, f"training.validation.rows={rows}")
        events = read_events(folder / "events.jsonl")
        return [one["values"]["val_loss"] for one in events if one["event"] == "validated"]

    few, every = losses("few", "3"), losses("every", "all")
    assert len(few) == 4
    assert np.ptp(few) == pytest.approx(0, abs=1e-9)
    assert few[0] != pytest.approx(every[0], abs=1e-9)
    assert losses("more", "1000000") == every
