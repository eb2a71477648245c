"""The offline files for W&B hold each step of the run folder once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("wandb")

from event_files import read_history, read_offline_run
from tracked_runs import begin_run, signals_of


def test_the_offline_run_holds_the_run_folder(tmp_path: Path) -> None:
    run = begin_run(tmp_path, sinks=("wandb",))
    run.train(25)
    run.validate()
    run.end()
    assert run.send("wandb")
    rows = read_history(run.folder.path / "wandb")
    assert {row["step"]: row["loss"] for row in rows if "loss" in row} == signals_of(run)
    assert [row["step"] for row in rows if "val_loss" in row] == [25]
    records = {
        record.WhichOneof("record_type"): record
        for record in read_offline_run(run.folder.path / "wandb")
    }
    assert records["run"].run.project == "small"
    assert records["run"].run.display_name == "run"
    config = {item.key: json.loads(item.value_json) for item in records["run"].run.config.update}
    assert config["training.seed"] == 3
    assert records["exit"].exit.exit_code == 0
    summaries = [
        (item.key or "/".join(item.nested_key), json.loads(item.value_json))
        for record in read_offline_run(run.folder.path / "wandb")
        for item in record.summary.update
    ]
    assert dict(summaries)["test/roc_auc"] == 0.9
    assert dict(summaries)["verdict"] == "met"


def test_after_a_rollback_and_a_resume_each_step_is_there_once(tmp_path: Path) -> None:
    run = begin_run(tmp_path, sinks=("wandb",))
    run.train(25)
    run.save()
    run.send("wandb")
    run.roll_back(12)
    run.train(10)
    run.save()
    run.resume(15)
    run.train(20)
    run.end()
    run.send("wandb")
    rows = read_history(run.folder.path / "wandb")
    losses = [(row["step"], row["loss"]) for row in rows if "loss" in row]
    assert losses == sorted(signals_of(run).items())


def test_what_was_synchronised_stays(tmp_path: Path) -> None:
    run = begin_run(tmp_path, sinks=("wandb",))
    run.train(5)
    run.save()
    run.send("wandb")
    (path,) = (run.folder.path / "wandb").glob("offline-run-*/*.wandb")
    path.with_name(f"{path.name}.synced").touch()
    run.train(5)
    run.end()
    run.send("wandb")
    assert path.is_file()
