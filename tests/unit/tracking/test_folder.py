"""The run folder, its lock and its record."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from faults.tiers import times
from trainwright.core.errors import Mistake, RunLocked, StorageFailed
from trainwright.testing.clock import FakeClock
from trainwright.tracking.folder import RunFolder, list_runs
from trainwright.tracking.hardware import describe_source
from trainwright.tracking.lock import Holder, RunLock, read_holder
from trainwright.tracking.record import Ending, RunFacts, RunRecord
from trainwright.tracking.redaction import redact, redact_command


def facts(source: Path, *command: str) -> RunFacts:
    return RunFacts(command or ("trainwright", "train"), source, "data-1", {"seed": 7}, {"omp": 1})


def test_the_next_free_name(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "runs"
    assert RunFolder.create_next(root, "income").name == "income-1"
    (root / "income-9").mkdir()
    (root / "income-x").mkdir()
    folder = RunFolder.create_next(root, "income")
    assert folder.name == "income-10"
    assert folder.checkpoints.is_dir()
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert RunFolder.create_next(root, "a" * 64).name == "a" * 58 + "-1"


def test_an_existing_name_is_refused_with_the_way_out(tmp_path: Path) -> None:
    RunFolder.create(tmp_path, "mine")
    with pytest.raises(Mistake, match="--resume") as caught:
        RunFolder.create(tmp_path, "mine")
    assert caught.value.exit_code == 2


@pytest.mark.row("F-47")
@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/x",
        "a/b",
        "",
        ".",
        "..",
        "%2e%2e%2fx",
        "a\\b",
        "a\0",
        "a\n",
        ".tmp-x",
        "x" * 300,
        "ａ",
    ],
)
def test_unsafe_names_write_nothing(tmp_path: Path, name: str) -> None:
    root = tmp_path / "runs"
    with pytest.raises(Mistake):
        RunFolder.create(root, name)
    with pytest.raises(Mistake):
        RunFolder.find(tmp_path, name)
    assert not root.exists()


@pytest.mark.row("F-47")
def test_a_linked_run_is_refused(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "runs"
    RunFolder.create(outside, "x").contract.write_text("")
    root.mkdir()
    (root / "x").symlink_to(outside / "x")
    with pytest.raises(Mistake):
        RunFolder.find(root, "x")
    with pytest.raises(Mistake, match="link"):
        RunFolder.open(root / "x")
    with pytest.raises(Mistake):
        RunFolder.create(root, "x")


def test_a_parent_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for root in (tmp_path / "file", tmp_path / "file" / "runs", Path("/proc/runs")):
        with pytest.raises((Mistake, StorageFailed)):
            RunFolder.create(root, "x")
    with pytest.raises(Mistake, match="cannot be written"):
        RunFolder.create(tmp_path / "file", "x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_rights_is_a_mistake(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(Mistake, match="cannot be written"):
        RunFolder.create(tmp_path, "x")
    tmp_path.chmod(0o700)


@pytest.mark.parametrize("what", ["nothing", "a file", "an empty folder"])
def test_opening_what_is_no_run(tmp_path: Path, what: str) -> None:
    path = tmp_path / "x"
    if what == "a file":
        path.write_text("")
    if what == "an empty folder":
        path.mkdir()
    with pytest.raises(Mistake, match="no run here"):
        RunFolder.open(path)


def test_runs_are_listed_with_their_state(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "none") == []
    clock = FakeClock()
    for name in ("done", "stopped", "broken", "dead", "alive"):
        folder = RunFolder.create(tmp_path, name)
        record = RunRecord.start(folder.record, facts(tmp_path), clock)
        clock.pass_seconds(60)
        if name == "done":
            record.finish(Ending("finished", "all steps", "met"))
        if name == "stopped":
            record.finish(Ending("interrupted", "SIGTERM"))
        if name == "broken":
            record.finish(Ending("failed", "non-finite loss"))
    (tmp_path / "no-run").mkdir()
    with RunFolder.find(tmp_path, "alive").lock():
        runs = list_runs(tmp_path)
    assert [(run.name, run.state, run.verdict) for run in runs] == [
        ("done", "finished", "met"),
        ("stopped", "interrupted", ""),
        ("broken", "failed", ""),
        ("dead", "interrupted", ""),
        ("alive", "running", ""),
    ]
    assert [run.state for run in list_runs(tmp_path)][-1] == "interrupted"
    assert runs[0].to_json()["started"] == "2026-01-01T00:00:00.000Z"


# The lock.

HOLD = """
import sys
from pathlib import Path
from trainwright.core.errors import RunLocked
from trainwright.tracking.lock import RunLock
print("ready", flush=True)
sys.stdin.readline()
try:
    lock = RunLock.acquire(Path(sys.argv[1]))
except RunLocked as error:
    print(f"{error.exit_code} {error}", flush=True)
    sys.exit(error.exit_code)
print("won", flush=True)
sys.stdin.readline()
"""


def holder(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


@pytest.mark.row("F-41")
def test_racing_processes_and_one_winner(tmp_path: Path, figure: Callable[..., None]) -> None:
    racing = times(20, 50)
    processes = [holder(tmp_path / "lock") for _ in range(racing)]
    try:
        for process in processes:
            go(process)
        answers = {process.pid: answer(process) for process in processes}
        winners = [pid for pid, text in answers.items() if text == "won"]
        assert len(winners) == 1
        for pid, text in answers.items():
            if pid != winners[0]:
                assert text.startswith("15 ")
                assert f"process {winners[0]} on " in text
        figure(racing_starts=racing, winners=len(winners))
    finally:
        for process in processes:
            end(process)


@pytest.mark.row("F-41")
def test_the_lock_dies_with_its_owner_and_stale_files_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    process = holder(path)
    try:
        go(process)
        assert answer(process) == "won"
        with pytest.raises(RunLocked, match=f"process {process.pid}"):
            RunLock.acquire(path)
    finally:
        end(process)
    stale = read_holder(path)
    assert isinstance(stale, Holder)
    assert stale.pid == process.pid
    assert not stale.is_alive_here()
    with RunLock.acquire(path):
        held = read_holder(path)
        assert isinstance(held, Holder)
        assert held.pid == os.getpid()
    assert path.read_bytes() == b""
    for text in (b"", b"{", b"[]", b'{"pid": 1}', b"[" * 100_000, b"\xff"):
        path.write_bytes(text)
        RunLock.acquire(path).release()


@pytest.mark.row("F-41")
def test_a_forked_worker_does_not_keep_the_lock_of_its_dead_parent(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    forked, tell = os.pipe()
    wait, stop = os.pipe()
    owner = os.fork()
    if owner == 0:
        RunLock.acquire(path)
        if os.fork() == 0:
            os.close(stop)
            os.write(tell, b"x")
            os.read(wait, 1)
        else:
            os.read(forked, 1)
        os._exit(0)
    assert os.waitpid(owner, 0)[1] == 0
    RunLock.acquire(path).release()
    for descriptor in (forked, tell, wait, stop):
        os.close(descriptor)


@pytest.mark.row("F-41")
def test_the_lock_is_not_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    (tmp_path / "lock").symlink_to(tmp_path / "target")
    with pytest.raises(StorageFailed):
        RunLock.acquire(tmp_path / "lock")
    assert (tmp_path / "target").read_text() == "precious"


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


@pytest.mark.parametrize("text", ["", "{", "[]", '{"attempts": 1}', "[" * 100_000])
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


@pytest.mark.row("F-41")
def test_a_refusal_is_quick(tmp_path: Path) -> None:
    with RunLock.acquire(tmp_path / "lock"):
        (tmp_path / "lock").write_bytes(b"")
        began = time.monotonic()
        with pytest.raises(RunLocked, match="not written its name"):
            RunLock.acquire(tmp_path / "lock")
        # Fault matrix F-41: within five seconds. A bound for a hang, not a measurement.
        assert time.monotonic() - began < 5


def test_a_fold_is_named_after_its_run_wherever_runs_lie(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "folds", "one")
    assert run.full_name == "one"
    fold = run.fold(2, "a1b2c3d4e5f6a7b8")
    assert fold.path == run.path / "folds/02"
    assert fold.full_name == "one-fold-02-a1b2c3d4e5f6"


def test_what_was_trained_on_other_data_is_no_part_of_a_fold(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "one")
    kept = run.fold(1, "a").path / "bundle"
    kept.touch()
    run.fold(1, "a")
    assert kept.exists()
    run.fold(1, "b")
    assert not kept.exists()
    kept.touch()
    # A fold whose data nobody knows: its process died while it was removed.
    (run.folds / "01/data/version.txt").unlink()
    run.fold(1, "b")
    assert not kept.exists()
