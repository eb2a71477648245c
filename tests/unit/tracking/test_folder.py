"""The folder of a run: its name, its place, and what is no run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from run_folders import facts
from trainwright.core.errors import Mistake, RunLocked, StorageFailed
from trainwright.testing.fakes import FakeClock
from trainwright.tracking.lock import RunLock
from trainwright.tracking.record import Ending, RunRecord
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.run_list import list_runs


def test_the_next_free_name(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "runs"
    assert RunFolder.create_next(root, "income").name == "income-1"
    (root / "income-9").mkdir()
    (root / "income-x").mkdir()
    folder = RunFolder.create_next(root, "income")
    assert folder.name == "income-10"
    assert folder.checkpoints.is_dir()
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


def test_another_name_is_offered_for_a_run_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match=r"no runs in .* --runs FOLDER"):
        RunFolder.find(tmp_path, "income-1")
    for name in ("income-1", "churn-1"):
        RunFolder.create(tmp_path, name)
    with pytest.raises(Mistake, match=r"did you mean income-1\?"):
        RunFolder.find(tmp_path, "incme-1")
    with pytest.raises(Mistake, match="name one of the runs: churn-1, income-1"):
        RunFolder.find(tmp_path, "x")


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


@pytest.mark.row("F-41")
@pytest.mark.timeout(5)
def test_a_refusal_is_quick(tmp_path: Path) -> None:
    with RunLock.acquire(tmp_path / "lock"):
        (tmp_path / "lock").write_bytes(b"")
        with pytest.raises(RunLocked, match="not written its name"):
            RunLock.acquire(tmp_path / "lock")


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
