"""A search as a real MLflow server has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("optuna")
pytest.importorskip("mlflow")

from mlflow import MlflowClient
from mlflow.entities import Run

from command import CONTRACT, command, project_in
from tracked_studies import TREES, kill_after
from trackers.mlflow_server import MlflowServer
from trainwright.core.files import read_json

pytestmark = [pytest.mark.row("F-42"), pytest.mark.timeout(600)]

PARENT = "mlflow.parentRunId"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, CONTRACT + TREES)


def sent_to(server: MlflowServer, experiment: str) -> tuple[str, ...]:
    tracking = f"{{sinks: [mlflow], mlflow_uri: '{server.address}', drain_seconds: 300"
    return ("--set", f"tracking={tracking}, experiment: {experiment}}}")


def runs_of(server: MlflowServer, experiment: str) -> dict[str, Run]:
    """All runs of an experiment by their names, which differ."""
    client = MlflowClient(server.address)
    known = client.get_experiment_by_name(experiment)
    assert known is not None
    runs = client.search_runs([known.experiment_id])
    named = {str(run.info.run_name): run for run in runs}
    assert len(named) == len(runs)
    return named


def test_a_killed_study_goes_on_in_its_run_with_its_trials_below(
    server: MlflowServer, project: Path
) -> None:
    experiment = f"study-{server.port}"
    words = sent_to(server, experiment)
    kill_after(2, "sent", *words)
    ran = command("tune", "small.yaml", "--study", "sent", "--resume", *words)
    assert ran.code in (0, 3), ran.err
    assert "mlflow" not in ran.err
    runs = runs_of(server, experiment)
    study = runs.pop("sent")
    assert sorted(runs) == [f"sent/trials/{number:04d}" for number in range(4)]
    client, folder = MlflowClient(server.address), project / "runs/sent"
    for name, run in runs.items():
        trial = Path(name).name
        outcome = read_json(folder / f"trials/{trial}.json")
        assert run.data.tags[PARENT] == study.info.run_id
        assert run.data.metrics["trial/value"] == outcome["value"]
        for path, value in read_json(folder / f"trials/{trial}.asked.json")["params"].items():
            assert run.data.params[path] == str(value)
        assert run.info.status == "FINISHED"
        assert len(client.get_metric_history(run.info.run_id, "trial/value")) == 1
    content = read_json(folder / "study.json")
    assert study.data.params["tune.method"] == "tpe"
    assert study.data.params["tune.trials"] == "4"
    assert study.data.metrics["study/trials"] == 4
    assert study.data.metrics["study/best"] == content["winner"]["best_of_many"]["value"]
    assert study.data.tags["ending"] == f"trial {content['winner']['trial']} kept of 4"
    judged = read_json(folder / "trials" / content["run"] / "evaluation.json")
    assert study.data.tags["verdict"] == judged["verdict"]["status"]
    points = client.get_metric_history(study.info.run_id, "trial/value")
    assert [point.step for point in sorted(points, key=lambda p: p.step)] == [0, 1, 2, 3]
    for name in ("report.html", "trials.csv"):
        path = client.download_artifacts(study.info.run_id, name, str(project))
        assert Path(path).read_bytes() == (folder / name).read_bytes()


def test_folds_are_below_their_trial(server: MlflowServer, project: Path) -> None:
    experiment = f"folds-{server.port}"
    words = ("--set", "tune.folds=2", "--set", "tune.trials=2", *sent_to(server, experiment))
    assert command("tune", "small.yaml", "--study", "folds", *words).code in (0, 3)
    runs = runs_of(server, experiment)
    for trial in ("folds/trials/0000", "folds/trials/0001"):
        outcome = read_json(project / "runs" / f"{trial}.json")
        assert runs[trial].data.tags[PARENT] == runs["folds"].info.run_id
        assert runs[trial].data.metrics["trial/value"] == outcome["value"]
        for fold in (1, 2):
            inner = runs[f"{trial}-fold-{fold}"]
            assert inner.data.tags[PARENT] == runs[trial].info.run_id
            assert inner.info.status == "FINISHED"
    assert len(runs) == 7
