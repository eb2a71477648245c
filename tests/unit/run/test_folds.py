"""Runs with folds: judged on rows that no model saw, kept fold by fold, and resumed exactly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pytest

from command import CONTRACT, command, project_in, with_layers
from folded_runs import check_goes_on
from trainwright.contract.sections.metric import Metric
from trainwright.core.errors import Interrupted
from trainwright.core.files import read_json
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.planner.plan import Plan
from trainwright.predictor.bundle import read_bundle
from trainwright.run.judging.write_predictions import read_predictions
from trainwright.run.learners.learner import Learner
from trainwright.run.repeats import train_folds
from trainwright.tracking.run_folder import RunFolder

FOLDED = CONTRACT.replace(
    "  target: bought\n", "  target: bought\n  split: {kind: stratified, folds: 3}\n"
)
NETWORK = (
    with_layers("[16, 8]", FOLDED)
    + "training:\n  num_epochs: 12\n  batch_size: 32\n  early_stopping: {patience: 1000}\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, FOLDED)


def test_the_verdict_rests_on_the_rows_of_all_folds(project: Path) -> None:
    ran = command("train", "small.yaml", "--run", "one", "--json")
    assert ran.code in (0, 3), ran.err
    written = read_json(Path("runs/one/evaluation.json"))
    assert written["evaluation"]["rows"] == 300
    by_fold = written["by_fold"]["folds"]
    assert [one["test_rows"] for one in by_fold] == [100, 100, 100]
    # Judged by hand, from the bundles of the folds alone.
    rows = pl.read_csv("rows.csv", infer_schema=False)
    right = 0.0
    for number, one in enumerate(by_fold):
        predictor = read_bundle(Path(f"runs/one/folds/{number + 1:02d}/bundle"))
        chosen = predictor.predict(rows)["prediction"]
        # Each fold's model is near chance nowhere, so equal counts are no accident.
        right += one["metrics"]["accuracy"] * one["test_rows"]
        assert len(chosen) == 300
    assert right / 300 == pytest.approx(written["evaluation"]["metrics"]["accuracy"]["value"])
    mean = written["by_fold"]["means"]["roc_auc"]
    assert mean["value"] == pytest.approx(np.mean([one["metrics"]["roc_auc"] for one in by_fold]))
    assert mean["low"] < mean["value"] < mean["high"]
    assert "folds     roc_auc" in ran.err
    split = read_json(Path("runs/one/data/split.json"))
    assert split["folds"] == [{"train": 170, "validation": 30, "test": 100}] * 3
    page = Path("runs/one/report.html").read_text()
    assert "roc_auc of each fold, by a model that did not see it" in page
    assert "The rows of all folds together; roc_auc counts pairs within a fold." in page
    assert command("runs", "verify", "one").code == 0
    assert command("predict", "one", "rows.csv", "-o", "p.csv").code == 0


@pytest.mark.extended
def test_noise_in_folds_of_groups_is_not_better_than_the_dummy(tmp_path: Path) -> None:
    """A dummy of each fold's own training rows is worse than a coin: the more of a class is in the
    fold, the less of it is in the others."""
    draws = np.random.default_rng(1)
    site = draws.integers(0, 12, 300)
    rate = 1 / (1 + np.exp(-2 * draws.normal(size=12)))
    columns = {name: draws.normal(size=300) for name in "abcd"}
    answers = np.where(draws.random(300) < rate[site], "u", "v")
    rows = pl.DataFrame({**columns, "site": [f"s{one}" for one in site], "y": answers})
    rows.write_csv(tmp_path / "rows.csv")
    (tmp_path / "noise.yaml").write_text(
        "data: {path: rows.csv, target: y, split: {kind: group, column: site, folds: 6}}\n"
        "model: {kind: linear}\n"
        "metric: {name: roc_auc, target: dummy, resamples: 200}\n"
    )
    ran = command("train", str(tmp_path / "noise.yaml"), "--runs", str(tmp_path / "runs"), "--json")
    judged = json.loads(ran.out)
    assert judged["baselines"]["dummy"]["roc_auc"]["value"] == 0.5
    assert (judged["verdict"] == "met", ran.code) == (False, 3)


@pytest.mark.extended
def test_noise_whose_classes_drift_is_not_better_than_a_coin(tmp_path: Path) -> None:
    """The model of a later fold expects more of a class, which there is: pooled over the folds its
    scores rank rows by their fold."""
    draws = np.random.default_rng(2)
    day = np.arange(600)
    answers = np.where(draws.random(600) < 0.1 + 0.85 * day / 600, "u", "v")
    columns = {name: draws.normal(size=600) for name in "ab"}
    pl.DataFrame({"day": day, **columns, "y": answers}).write_csv(tmp_path / "rows.csv")
    (tmp_path / "noise.yaml").write_text(
        "data: {path: rows.csv, target: y, split: {kind: time, column: day, folds: 5}}\n"
        "model: {kind: linear}\n"
        "metric: {name: roc_auc, target: dummy, resamples: 200}\n"
    )
    ran = command("train", str(tmp_path / "noise.yaml"), "--runs", str(tmp_path / "runs"), "--json")
    judged = json.loads(ran.out)
    (run,) = (tmp_path / "runs").iterdir()
    rows = read_predictions(RunFolder(run)).answers
    pooled = measure("roc_auc", replace(rows, folds=None), Metric())
    assert pooled > 0.7
    found = judged["metrics"]["roc_auc"]
    assert found["low"] < 0.5 < found["high"] < pooled
    assert (judged["verdict"] == "met", ran.code) == (False, 3)
    assert measure("roc_auc", rows, Metric()) == pytest.approx(found["value"], abs=1e-12)
    written = read_json(run / "evaluation.json")
    assert written["evaluation"]["intervals"].endswith("roc_auc counts pairs of rows of one fold")
    # Each fold's own score, weighted by its pairs of a positive and a negative.
    scores = [one["metrics"]["roc_auc"] for one in written["by_fold"]["folds"]]
    truth = [rows.is_positive()[of_fold] for of_fold in rows.rows_of_folds()]
    pairs = [one.sum() * (~one).sum() for one in truth]
    assert np.average(scores, weights=pairs) == pytest.approx(found["value"], abs=1e-12)


def test_a_damaged_fold_is_found(project: Path) -> None:
    assert command("train", "small.yaml", "--run", "one").code in (0, 3)
    model = Path("runs/one/folds/02/bundle/model.txt")
    model.write_bytes(model.read_bytes() + b" ")
    ran = command("runs", "verify", "one")
    assert ran.code == 13
    assert "fold 02: bundle" in ran.out


def test_folds_leave_no_room_for_files_of_their_own(project: Path) -> None:
    ran = command("train", "small.yaml", "--set", "data.test_path=rows.csv")
    assert ran.code == 2
    assert "data.split.folds: every row is tested once in its fold" in ran.err


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.row("F-07")
@pytest.mark.parametrize("step", [20, 110], ids=["in a fold", "in the run's own model"])
def test_a_stopped_run_with_folds_goes_on_to_the_same_bits(project: Path, step: int) -> None:
    pytest.importorskip("torch")
    Path("small.yaml").write_text(NETWORK)
    assert command("train", "small.yaml", "--run", "whole").code in (0, 3)
    steps = len(Path("runs/whole/folds/01/signals.jsonl").read_text().splitlines())
    assert steps == 72
    stop = step if step < steps else 3 * steps + step - 100
    check_goes_on("small.yaml", stop)


@pytest.mark.extended
@pytest.mark.row("F-33")
def test_a_fold_that_was_trained_on_other_data_is_trained_again(project: Path) -> None:
    """Appended rows move others to other folds: its model has seen those that the fold tests."""
    build, built = train_folds.learner_of, 0

    def stopped(plan: Plan) -> Learner:
        nonlocal built
        built += 1
        if built == 2:
            raise Interrupted("stopped by a test")
        return build(plan)

    with mock.patch.object(train_folds, "learner_of", stopped):
        assert command("train", "small.yaml", "--run", "one").code == 75
    assert Path("runs/one/folds/01/bundle").is_dir()
    with Path("rows.csv").open("a") as stream:
        stream.writelines(Path("rows.csv").read_text().splitlines(keepends=True)[1:90])
    recorded = ("--set", "resume.data_changed=record")
    ran = command("train", "small.yaml", "--run", "one", "--resume", *recorded)
    assert ran.code in (0, 3), ran.err
    assert command("train", "small.yaml", "--run", "new").code in (0, 3)
    judged = [read_json(Path("runs", run, "evaluation.json")) for run in ("one", "new")]
    assert judged[0]["by_fold"] == judged[1]["by_fold"]
    assert judged[0]["evaluation"] == judged[1]["evaluation"]


@pytest.mark.extended
@pytest.mark.torch
def test_the_time_of_an_end_is_watched_in_the_folds_too(project: Path) -> None:
    pytest.importorskip("torch")
    short = NETWORK.replace("num_epochs: 12", "num_epochs: 2")
    Path("small.yaml").write_text(f"{short}resume: {{grace_seconds: 0.000001}}\n")
    ran = command("train", "small.yaml", "--run", "one")
    assert ran.code in (0, 3), ran.err
    told = ran.err.index("a graceful shutdown may take")
    assert ran.err.index("fold      1 of 3") < told < ran.err.index("fold      2 of 3")
    assert ran.err.count("a graceful shutdown may take") == 1
    assert Path("runs/one/events.jsonl").read_text().count('"kind": "grace"') == 1


@pytest.mark.extended
def test_the_scores_are_written_as_plain_json(project: Path) -> None:
    assert command("train", "small.yaml", "--run", "one").code in (0, 3)
    text = Path("runs/one/evaluation.json").read_text()
    assert json.loads(text)["by_fold"]["folds"]
