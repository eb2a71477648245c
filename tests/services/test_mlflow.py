"""What MLflow's own client reads of a real server equals the run folder."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("mlflow")

from mlflow import MlflowClient
from mlflow.entities import Metric, Run

from command import NETWORK, command, project_in
from tracked_runs import RecordedRun, begin_run, signals_of
from trackers.mlflow_server import MlflowServer
from trainwright.core.files import read_json
from trainwright.tracking.sinks.cursor import Cursor

pytestmark = [pytest.mark.row("F-42"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield from project_in(tmp_path_factory.mktemp("served"), NETWORK)


def begin(root: Path, server: MlflowServer, name: str = "run", **given: str) -> RecordedRun:
    root.mkdir(exist_ok=True)
    experiment = f"{root.name}-{server.port}"
    address = {"mlflow_uri": server.address, "experiment": experiment}
    return begin_run(root, name, sinks=("mlflow",), **address, **given)


def find(server: MlflowServer, run: RecordedRun) -> Run:
    cursor = Cursor.read(run.folder.path / "sinks" / "mlflow.json")
    return MlflowClient(server.address).get_run(cursor.run)


def history(server: MlflowServer, run: Run, name: str) -> list[Metric]:
    """Every point of a metric, page after page."""
    return list(MlflowClient(server.address).get_metric_history(run.info.run_id, name))


def values(points: list[Metric]) -> dict[int, float]:
    return {point.step: point.value for point in sorted(points, key=lambda p: p.timestamp)}


def test_it_reads_back_the_run_folder(server: MlflowServer, tmp_path: Path) -> None:
    run = begin(tmp_path / "whole", server)
    run.train(40)
    run.validate()
    run.end()
    assert run.send("mlflow")
    sent = find(server, run)
    rows = [json.loads(line) for line in run.folder.signals.read_text().splitlines()]
    for name in rows[0].keys() - {"step", "time"}:
        taken = history(server, sent, name.replace("(", "_").replace(")", "_"))
        key = [(p.step, p.value, p.timestamp) for p in sorted(taken, key=lambda p: p.step)]
        assert key == [(row["step"], row[name], round(1000 * row["time"])) for row in rows]
    norms = values(history(server, sent, "weight_norm/body.0"))
    assert norms == pytest.approx({step: rows[step - 1]["loss"] for step in (10, 20, 30, 40)}, 1e-5)
    assert sent.data.metrics["test/roc_auc"] == 0.9
    assert sent.data.metrics["test/roc_auc/low"] == 0.88
    assert sent.data.metrics["slice/sex_F/roc_auc"] == 0.8
    assert sent.data.params["training.seed"] == "3"
    assert len(sent.data.params["model.note"]) == 6000
    assert sent.data.tags["cut_parameters"] == "model.note"
    assert sent.data.tags["verdict"] == "met"
    assert sent.data.tags["plan_hash"] == "f" * 64
    assert sent.data.tags["mlflow.source.git.commit"] == "0123456789abcdef0123456789abcdef01234567"
    assert json.loads(sent.data.tags["renamed"])["own/share (a)"] == "own/share _a_"
    assert sent.info.status == "FINISHED"
    assert sent.info.run_name == "run"
    artifacts = {a.path for a in MlflowClient(server.address).list_artifacts(sent.info.run_id)}
    assert {"report.html", "plan.json", "evaluation.json", "contract.yaml"} <= artifacts
    assert [line for line in run.said if line.startswith("warning")] == []
    assert sum("renamed" in line for line in run.said) == 2  # of signals, and of results


def test_what_is_no_number_is_a_tag(server: MlflowServer, tmp_path: Path) -> None:
    run = begin(tmp_path / "nonfinite", server)
    run.train(6, {2: math.nan, 4: math.inf})
    run.end()
    run.send("mlflow")
    sent = find(server, run)
    assert sorted(values(history(server, sent, "loss"))) == [1, 3, 5, 6]
    assert sent.data.tags["nonfinite.loss"] == "nan at step 2"


def test_resume_goes_on_in_the_same_run_and_a_rollback_is_tagged(
    server: MlflowServer, tmp_path: Path
) -> None:
    run = begin(tmp_path / "again", server)
    run.train(30)
    run.save()
    run.send("mlflow")
    first = find(server, run)
    run.resume(10)
    run.train(30)
    run.save()
    run.send("mlflow")
    assert max(Counter(p.step for p in history(server, first, "loss")).values()) == 1
    assert "rewound" not in find(server, run).data.tags
    run.roll_back(25)
    run.train(20)
    run.end()
    run.send("mlflow")
    sent = find(server, run)
    assert sent.info.run_id == first.info.run_id
    assert sent.data.tags["rewound"] == "25"
    taken = history(server, sent, "loss")
    assert values(taken) == signals_of(run)
    assert Counter(Counter(p.step for p in taken).values()) == {1: 30, 2: 15}
    assert sent.info.status == "FINISHED"


def test_a_batch_that_is_sent_twice_is_there_once(server: MlflowServer, tmp_path: Path) -> None:
    """The sink was killed after its request and before it kept its cursor; then the run's id was
    lost too."""
    run = begin(tmp_path / "twice", server)
    run.train(25)
    run.save()
    run.send("mlflow")
    sent, path = find(server, run), run.folder.path / "sinks" / "mlflow.json"
    cursor = Cursor.read(path)
    cursor.signals = cursor.windows = 3
    cursor.write(path)
    run.send("mlflow")
    path.unlink()
    run.end()
    run.send("mlflow")
    assert find(server, run).info.run_id == sent.info.run_id
    taken = history(server, sent, "loss")
    assert len(taken) == 25
    assert values(taken) == signals_of(run)


def test_two_runs_of_one_name_are_two(server: MlflowServer, tmp_path: Path) -> None:
    root = tmp_path / "names"
    root.mkdir()
    runs = []
    for identity in ("a" * 32, "b" * 32):
        (root / identity).mkdir()
        address = {"mlflow_uri": server.address, "experiment": f"names-{server.port}"}
        run = begin_run(root / identity, identity=identity, sinks=("mlflow",), **address)
        run.train(5)
        run.end()
        run.send("mlflow")
        runs.append(run)
    assert find(server, runs[0]).info.run_id != find(server, runs[1]).info.run_id
    warnings = [[line for line in run.said if line.startswith("warning")] for run in runs]
    assert [len(some) for some in warnings] == [0, 1]
    assert "has a run named run" in warnings[1][0]


def test_a_run_that_was_deleted_there_is_sent_anew(server: MlflowServer, tmp_path: Path) -> None:
    run = begin(tmp_path / "deleted", server)
    run.train(5)
    run.save()
    run.send("mlflow")
    first = find(server, run)
    MlflowClient(server.address).delete_run(first.info.run_id)
    run.train(5)
    run.end()
    run.send("mlflow")
    second = find(server, run)
    assert second.info.run_id != first.info.run_id
    assert values(history(server, second, "loss")) == signals_of(run)


def test_folds_are_nested(server: MlflowServer, tmp_path: Path) -> None:
    run = begin(tmp_path / "nested", server)
    fold = RecordedRun(run.folder.fold(1, "v" * 12))
    fold.train(10)
    fold.save()
    run.train(5)
    run.end()
    run.send("mlflow")
    sent, inner = find(server, run), find(server, fold)
    assert inner.data.tags["mlflow.parentRunId"] == sent.info.run_id
    assert inner.info.run_name == "run/folds/01"
    assert values(history(server, inner, "loss")) == signals_of(fold)


def test_a_trial_has_the_parent_that_it_is_given(
    server: MlflowServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = begin(tmp_path / "study", server, "study")
    study.end()
    study.send("mlflow")
    parent = find(server, study).info.run_id
    monkeypatch.setenv("TRAINWRIGHT_TRACKING_PARENT", parent)
    trial = begin(tmp_path / "study", server, "trial")
    trial.train(3)
    trial.end()
    trial.send("mlflow")
    assert find(server, trial).data.tags["mlflow.parentRunId"] == parent


def test_an_outage_loses_nothing_and_sends_nothing_twice(
    server: MlflowServer, tmp_path: Path
) -> None:
    """10^5 points: the server is killed while they are sent, and comes back."""
    run = begin(tmp_path / "outage", server)
    run.window = 500
    run.begin_attempt()
    run.train(9000)  # 12 numbers a step
    run.end()
    killed = threading.Timer(4, server.kill)
    killed.start()
    run.send("mlflow", seconds=300)
    killed.join()
    server.kill()
    between = Cursor.read(run.folder.path / "sinks" / "mlflow.json").signals
    assert not run.send("mlflow", seconds=5)
    assert sum(line.startswith("warning") for line in run.said) in (1, 2)
    server.start()
    assert run.send("mlflow", seconds=500)
    sent = find(server, run)
    assert between <= 9000
    for name in ("loss", "memory_bytes", "own/share _a_"):
        taken = history(server, sent, name)
        assert Counter(p.step for p in taken) == Counter(range(1, 9001))
    assert values(history(server, sent, "loss")) == signals_of(run)


def test_the_command_sends_while_it_trains_and_resumes_in_the_same_run(
    server: MlflowServer, project: Path
) -> None:
    name = f"trained-{server.port}"
    experiment = f"command-{server.port}"
    tracking = (
        f"tracking={{sinks: [mlflow], mlflow_uri: '{server.address}', experiment: {experiment},"
        " drain_seconds: 120}"
    )
    done = command("train", "small.yaml", "--run", name, "--set", tracking)
    assert done.code in (0, 3), done.err
    assert not [
        line for line in done.err.splitlines() if line.startswith(("unsent", "warning   ml"))
    ]
    (sent,) = MlflowClient(server.address).search_runs(
        [MlflowClient(server.address).get_experiment_by_name(experiment).experiment_id]
    )
    folder = project / "runs" / name
    rows = [json.loads(line) for line in (folder / "signals.jsonl").read_text().splitlines()]
    assert values(history(server, sent, "loss")) == {row["step"]: row["loss"] for row in rows}
    judged = read_json(folder / "evaluation.json")["evaluation"]["metrics"]
    for metric, interval in judged.items():
        assert sent.data.metrics[f"test/{metric}"] == interval["value"]
    client = MlflowClient(server.address)
    report = client.download_artifacts(sent.info.run_id, "report.html", str(project))
    assert Path(report).read_bytes() == (folder / "report.html").read_bytes()
    longer = command("resume", name, "--for", "1 epoch")
    assert longer.code in (0, 3), longer.err
    sent = client.get_run(sent.info.run_id)
    rows = [json.loads(line) for line in (folder / "signals.jsonl").read_text().splitlines()]
    taken = history(server, sent, "loss")
    assert values(taken) == {row["step"]: row["loss"] for row in rows}
    assert len(taken) == len(rows)
    assert sent.info.status == "FINISHED"
    assert time.time() - sent.info.end_time / 1000 < 3600
