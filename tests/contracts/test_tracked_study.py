"""A search as a tracker has it: the study, its trials below it, and their folds below these."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("optuna")
pytest.importorskip("tensorboard")

from command import CONTRACT, command, project_in
from event_files import read_scalars
from tracked_studies import TREES, kill_after
from trainwright.core.files import read_json
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.sinks.training_facts import TrackedTraining, find_trainings

SINKS = ("--set", "tracking.sinks=[tensorboard]", "--set", "tracking.drain_seconds=120")
VALUE = "trial/value"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, CONTRACT + TREES)


@pytest.mark.extended
def test_a_study_and_its_trials_are_sent_once_through_a_kill(project: Path) -> None:
    kill_after(2, "sent", *SINKS)
    ran = command("tune", "small.yaml", "--study", "sent", "--resume", *SINKS)
    assert ran.code in (0, 3), ran.err
    study = project / "runs/sent"
    events, values = study / "tensorboard", []
    for number in range(4):
        outcome = read_json(study / f"trials/{number:04d}.json")
        # Once, also of the kept trial, which ends twice and is judged in between.
        ((_, value),) = read_scalars(events / f"trials/{number:04d}", VALUE)
        assert value == pytest.approx(outcome["value"], rel=1e-6)
        values.append((number, value))
    assert read_scalars(events, VALUE) == values
    kept = read_json(study / "study.json")["run"]
    judged = read_json(study / "trials" / kept / "evaluation.json")["evaluation"]["metrics"]
    for folder in (events, events / "trials" / kept):
        ((_, value),) = read_scalars(folder, "test/roc_auc")
        assert value == pytest.approx(judged["roc_auc"]["value"], rel=1e-6)
    again = command("runs", "sync", "sent")
    assert again.code == 0
    assert "tensorboard has sent" in again.err
    assert read_scalars(events, VALUE) == values


@pytest.mark.extended
def test_folds_are_below_their_trial(project: Path) -> None:
    words = ("--set", "tune.folds=2", "--set", "tune.trials=2")
    assert command("tune", "small.yaml", "--study", "folds", *words).code in (0, 3)
    study = TrackedTraining(RunFolder(project / "runs/folds"))
    outer = {training.part: training.outer for training in find_trainings(study)}
    trials = {"trials/0000": "", "trials/0001": ""}
    folds = {f"{trial}-fold-{fold}": trial for trial in trials for fold in (1, 2)}
    assert outer == {"": "", **trials, **folds}
