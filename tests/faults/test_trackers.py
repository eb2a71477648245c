"""Tracking servers that are down, fail, refuse or never answer cost a run nothing but a warning."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from command import NETWORK, PROCESS, Ran, command, project_in
from deadlines import within
from trackers.stands import closed_port, stand_in
from trainwright.core.files import hash_file, read_json

pytest.importorskip("torch")
pytest.importorskip("mlflow")
pytestmark = [pytest.mark.row("F-42"), pytest.mark.extended]

MODEL = "bundle/network.safetensors"


@pytest.fixture
def stand(request: pytest.FixtureRequest) -> Iterator[str]:
    """Address of a server in the state that the parameter names."""
    with stand_in(request.param) as address:
        yield address


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    for folder in project_in(tmp_path_factory.mktemp("tracked"), NETWORK):
        assert command("train", "small.yaml", "--run", "alone").code in (0, 3)
        yield folder


def train_to(address: str, run: str, *settings: str) -> Ran:
    tracking = f"{{sinks: [mlflow], mlflow_uri: '{address}'}}"
    words = [word for setting in settings for word in ("--set", setting)]
    return command("train", "small.yaml", "--run", run, "--set", f"tracking={tracking}", *words)


@pytest.mark.parametrize(
    ("stand", "said"),
    [
        ("down", "Connection refused"),
        ("wrong address", "no-such-host.invalid"),
        ("failing", "500 error responses"),
        ("full", "500 error responses"),
        ("wrong token", "Invalid token"),
        ("never answers", "lacks steps 1 to"),
    ],
    indirect=["stand"],
)
def test_one_warning_and_the_same_model(
    stand: str, said: str, project: Path, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.params["stand"].replace(" ", "-")
    # A server that never answers is waited for until the end of a request.
    drain = "1" if said.startswith("lacks") else "60"
    ran = train_to(stand, name, f"tracking.drain_seconds={drain}")
    assert ran.code in (0, 3), ran.err
    warnings = [line for line in ran.err.splitlines() if line.startswith("warning")]
    about = [line for line in warnings if "mlflow" in line]
    assert len(about) == 1, ran.err
    assert said in about[0]
    assert "trainwright runs sync" in ran.err
    alone, run = project / "runs" / "alone", project / "runs" / name
    assert hash_file(run / MODEL) == hash_file(alone / MODEL)
    steps = [json.loads(line)["step"] for line in (run / "signals.jsonl").read_text().splitlines()]
    assert steps == list(range(1, len(steps) + 1))
    assert command("runs", "verify", str(run)).code == 0


def test_a_sink_is_never_forked_and_leaves_with_a_killed_training(project: Path) -> None:
    address = closed_port()
    tracking = f"tracking={{sinks: [mlflow], mlflow_uri: '{address}', drain_seconds: 1}}"
    training = subprocess.Popen(
        [
            *PROCESS,
            "train",
            "small.yaml",
            "--run",
            "killed",
            "--set",
            tracking,
            "--set",
            "training.num_epochs=100000",
            "--set",
            "training.early_stopping=off",
        ],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    lock = project / "runs" / "killed" / "sinks" / "mlflow.lock"
    try:
        assert eventually(lambda: lock.is_file() and lock.read_text() != "")
        sink = json.loads(lock.read_text())["pid"]
        words = Path(f"/proc/{sink}/cmdline").read_bytes().split(b"\0")
        assert b"trainwright.tracking.sinks" in words
        training.send_signal(signal.SIGKILL)
    finally:
        training.kill()
        training.wait()
    assert eventually(lambda: not is_running(sink))


def is_running(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def eventually(happens: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + within(60)
    while time.monotonic() < deadline:
        if happens():
            return True
        time.sleep(0.05)
    return False


def test_a_sink_without_its_package_is_refused_before_anything_is_written(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainwright.core import lazy_imports

    find = lazy_imports.find_spec
    monkeypatch.setattr(
        lazy_imports, "find_spec", lambda name: None if name == "mlflow" else find(name)
    )
    ran = train_to("http://127.0.0.1:1", "without")
    assert ran.code == 2
    assert "pip install 'trainwright[mlflow]'" in ran.err
    assert not (project / "runs" / "without").exists()


def test_runs_sync_says_what_is_missing_and_can_be_repeated(project: Path) -> None:
    ran = command("runs", "sync", "alone", "--sink", "mlflow", "--mlflow-uri", closed_port())
    assert ran.code == 75
    assert "lacks steps 1 to" in ran.err
    assert ran.err.count("warning") == 1
    wrong = command("runs", "sync", "alone", "--sink", "ftp")
    assert wrong.code == 2
    assert command("runs", "sync", "alone").code == 2
    for address in ((), ("--mlflow-uri", "ftp://there")):
        nowhere = command("runs", "sync", "alone", "--sink", "mlflow", *address)
        assert nowhere.code == 2
        assert "--mlflow-uri http" in nowhere.err


def test_event_files_follow_a_command(project: Path) -> None:
    pytest.importorskip("tensorboard")
    from event_files import read_scalars

    done = command("train", "small.yaml", "--run", "shown", "--set", "tracking.sinks=[tensorboard]")
    assert done.code in (0, 3)
    run = project / "runs" / "shown"
    rows = [json.loads(line) for line in (run / "signals.jsonl").read_text().splitlines()]
    shown = read_scalars(run / "tensorboard", "loss")
    assert [step for step, _ in shown] == [row["step"] for row in rows]
    assert [value for _, value in shown] == pytest.approx([row["loss"] for row in rows], rel=1e-6)
    judged = read_json(run / "evaluation.json")["evaluation"]["metrics"]["roc_auc"]["value"]
    assert read_scalars(run / "tensorboard", "test/roc_auc")[0][1] == pytest.approx(judged)
    assert (run / "log.txt").read_text().count("trained") == 1
    assert any(
        line.startswith("torch==") for line in (run / "requirements.txt").read_text().splitlines()
    )
    assert (run / "report.html").is_file()
