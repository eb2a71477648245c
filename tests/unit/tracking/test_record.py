"""The record of a run: whole, without secrets, and never written over when it is damaged."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from run_folders import facts
from trainwright.core.errors import StorageFailed
from trainwright.core.files import read_json
from trainwright.core.redaction import redact, redact_command
from trainwright.testing.fakes import FakeClock
from trainwright.tracking.environment import describe_source
from trainwright.tracking.record import Ending, RunFacts, RunRecord

# The record.


@pytest.mark.row("F-26")
def test_the_record_of_two_attempts(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    clock = FakeClock()
    record = RunRecord.start(path, facts(tmp_path), clock)
    clock.pass_seconds(5)
    clock.set_date(datetime(2020, 1, 1, tzinfo=UTC))
    record.finish(Ending("interrupted", "SIGTERM", exit_code=75))
    record = RunRecord.start(path, facts(tmp_path, "trainwright", "train", "--resume"), clock)
    clock.pass_seconds(3)
    record.finish(Ending("finished", "all steps", "met"))
    content = json.loads(path.read_bytes())
    assert content["seconds"] == 8.0
    assert content["started"] == "2026-01-01T00:00:00.000Z"
    assert [attempt["ending"]["state"] for attempt in content["attempts"]] == [
        "interrupted",
        "finished",
    ]
    assert [attempt["seconds"] for attempt in content["attempts"]] == [5.0, 3.0]
    assert content["ending"]["verdict"] == "met"
    assert content["seeds"] == {"seed": 7}
    assert content["hardware"]["cores"] >= 1
    assert any(line.startswith("pydantic==") for line in content["environment"]["packages"])


def test_an_unfinished_attempt_has_no_ending(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    RunRecord.start(path, facts(tmp_path)).finish(Ending("failed", "x"))
    RunRecord.start(path, facts(tmp_path))
    content = json.loads(path.read_bytes())
    assert "ending" not in content
    assert "ending" in content["attempts"][0]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"attempts": 1}', "[" * 1000])
def test_a_damaged_record_is_not_overwritten(tmp_path: Path, text: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(StorageFailed, match="damaged"):
        RunRecord.start(path, facts(tmp_path))
    assert path.read_text() == text


def test_the_source_is_its_commit_and_what_was_changed(tmp_path: Path) -> None:
    assert "absent" in describe_source(tmp_path)

    def git(*words: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "a")
    clean = describe_source(tmp_path)
    assert (len(clean["commit"]), clean["dirty"]) == (40, False)
    (tmp_path / "a").write_text("2")
    first = describe_source(tmp_path)
    (tmp_path / "a").write_text("3")
    second = describe_source(tmp_path)
    assert first["dirty"]
    assert second["dirty"]
    assert len({clean["diff_sha256"], first["diff_sha256"], second["diff_sha256"]}) == 3


SECRET = "s3cr3tV4lue9"
PLANTED = [
    f"--token {SECRET}",
    f"--api-key={SECRET}",
    f"--hub.access_token {SECRET}",
    f"-password {SECRET}",
    f"--set tracking.wandb_api_key={SECRET}",
    f"https://user:{SECRET}@example.org/data.csv",
    f"postgresql://{SECRET}@example.org/db",
    f"https://example.org/x?sig={SECRET}&a=1",
    f"https://example.org/x?X-Amz-Signature={SECRET}",
    f"--header 'Authorization: Bearer {SECRET}'",
    f"--note hf_{SECRET}",
    f"--note ghp_{SECRET}{SECRET}",
    f"--note sk-{SECRET}",
    f"--note AKIA{SECRET}",
    f"--note {SECRET * 4}",
    f'--set \'x={{"secret": "{SECRET}"}}\'',
    f"--secret-key {SECRET}",
    f"--client_secret={SECRET}",
    f"--auth {SECRET}",
    f"s3://{SECRET}:{SECRET}@bucket/x",
]


@pytest.mark.row("F-48")
@pytest.mark.parametrize("planted", PLANTED)
def test_secrets_of_a_command_are_hidden(tmp_path: Path, planted: str) -> None:
    import shlex

    words = ["trainwright", "train", *shlex.split(planted)]
    path = tmp_path / "record.json"
    record = RunRecord.start(path, facts(tmp_path, *words))
    if "--" not in planted and not planted.startswith("-"):
        record.finish(Ending("failed", f"cannot read {planted}"))
    assert SECRET not in path.read_text()


@pytest.mark.parametrize(
    "plain",
    [
        "training.batch_size=64",
        "model.max_tokens=512",
        "--seed",
        "runs/income-1/report.html",
        "examples/income/contract.yaml",
        "https://example.org/data.csv",
        "data.key_column=id",
        "config=design",
        "tokenizer=bert-base-uncased",
    ],
)
def test_what_is_no_secret_stays(plain: str) -> None:
    assert redact(plain) == plain
    assert redact_command([plain, "next"]) == [plain, "next"]


@pytest.mark.row("F-48")
def test_the_environment_is_never_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_VARIABLE", SECRET)
    RunRecord.start(tmp_path / "record.json", facts(tmp_path))
    assert SECRET not in (tmp_path / "record.json").read_text()


def test_the_packages_that_were_imported_are_listed(tmp_path: Path) -> None:
    asked = RunFacts(command=["x"], source=tmp_path, data_version="v")
    RunRecord.start(tmp_path / "record.json", asked).finish(Ending("finished", "done"))
    lines = (tmp_path / "requirements.txt").read_text().splitlines()
    assert f"pytest=={pytest.__version__}" in lines
    assert lines == sorted(lines)
    assert not any(line.startswith("mkdocs==") for line in lines)


@pytest.mark.parametrize(
    ("variables", "container"),
    [
        ({"CONTAINER_IMAGE": "registry/train:3"}, {"image": "registry/train:3", "kind": "named"}),
        ({"APPTAINER_CONTAINER": "/a.sif"}, {"image": "/a.sif", "kind": "apptainer"}),
    ],
)
def test_the_image_of_a_container_is_recorded(
    variables: dict[str, str],
    container: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    asked = RunFacts(command=["x"], source=tmp_path, data_version="v")
    RunRecord.start(tmp_path / "record.json", asked)
    assert read_json(tmp_path / "record.json")["container"] == container


def test_a_gpu_that_cannot_be_asked_is_said(tmp_path: Path) -> None:
    """Without NVML its library says so; with it, that it knows no such GPU."""
    pytest.importorskip("pynvml")
    asked = RunFacts(command=["x"], source=tmp_path, data_version="v", gpu_uuid="GPU-none")
    record = RunRecord.start(tmp_path / "record.json", asked)
    record.beat()
    record.beat()
    (attempt,) = read_json(tmp_path / "record.json")["attempts"]
    assert set(attempt["gpu_use"]) == {"absent"}
    assert attempt["gpu_use"]["absent"]
