"""The page of several targets: its contracts are those in `examples/targets`, and its commands
run."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from command import command
from guide import GUIDE, blocks
from page_runs import run_page
from trainwright.core.files import read_json

PAGE = "several-targets.md"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "targets"
CONTRACTS = sorted(EXAMPLES.glob("*.yaml"))


def test_the_page_shows_every_example() -> None:
    shown = blocks(GUIDE / PAGE, "yaml")
    assert len(CONTRACTS) == 3
    assert all(path.read_text(encoding="utf-8") in shown for path in CONTRACTS)


@pytest.mark.extended
def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(PAGE, "## What a run says", monkeypatch)
    answer = pl.read_csv("predictions.csv")
    assert answer.columns == ["prediction_systolic", "prediction_diastolic"]
    assert answer.height == 720


@pytest.mark.extended
@pytest.mark.parametrize("name", ["labels", pytest.param("lists", marks=pytest.mark.torch)])
def test_an_example_of_labels_trains_evaluates_and_predicts(name: str, tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "patients.csv", tmp_path)
    shutil.copy(EXAMPLES / f"{name}.yaml", tmp_path)
    where = ("--runs", str(tmp_path))
    few = ("--set", "metric.resamples=100", "--set", "data.quality.look=quick")
    few += ("--set", "training.num_epochs=2") if name == "lists" else ()
    ran = command("train", tmp_path / f"{name}.yaml", *few, *where, "--run", "one")
    assert ran.code in (0, 3), ran.err
    judged = read_json(tmp_path / "one" / "evaluation.json")["evaluation"]
    named = {"hypertension", "diabetes", "asthma"}
    assert {one["name"] for one in judged["targets"]} == named
    assert judged["gains"]["dummy"]["f1_micro"]["low"] <= judged["metrics"]["f1_micro"]["value"]
    again = command("evaluate", "one", tmp_path / "patients.csv", *where)
    assert again.code in (0, 3), again.err
    assert "hypertension average_precision" in again.out
    command("predict", "one", tmp_path / "patients.csv", "-o", tmp_path / "out.csv", *where)
    answer = pl.read_csv(tmp_path / "out.csv")
    assert set(answer.columns) == {f"{p}_{n}" for p in ("prediction", "probability") for n in named}
    given = answer["probability_asthma"] >= 0.5
    assert (answer["prediction_asthma"] == given.cast(pl.Int64)).all()
    page = (tmp_path / "one" / "report.html").read_text(encoding="utf-8")
    assert "<h2>Targets</h2>" in page
    assert "hypertension" in page
