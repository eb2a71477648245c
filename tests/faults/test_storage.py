"""Rows F-16, F-18 and F-19: disks that are full, cannot be written to, or are gone.

`stop` ends with a typed error and exit code 13, `continue` goes on, counts and tries again; in both
the checkpoints that were there stay, nothing half-written is left, and not a bit of the result
differs from the run that had no such day.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import trainwright  # noqa: E402
from canary import (  # noqa: E402
    STARTS,
    Canary,
    Setting,
    everything,
    resumed_from,
    unbroken,
)
from command import command, events_of_one, inside, train_one, tree, with_layers, write_project  # noqa: E402
from comparing import differences  # noqa: E402
from faults.disks import small_disk  # noqa: E402
from trainwright.checkpoint.background_save import BackgroundCheckpoints  # noqa: E402
from trainwright.checkpoint.store import Checkpoints, Loaded  # noqa: E402
from trainwright.checkpoint.store_calls import tolerate_failures  # noqa: E402
from trainwright.core.errors import StorageFailed  # noqa: E402
from trainwright.core.faultpoints import arm  # noqa: E402
from trainwright.engine import saving as save_policy  # noqa: E402
from trainwright.predictor.bundle import write_bundle  # noqa: E402
from trainwright.tracking.events import (  # noqa: E402
    Ended,
    Event,
    Observers,
    Saved,
    SaveMissed,
    Saving,
)

pytestmark = pytest.mark.torch

SETTING = Setting(checkpoint_every=2, validate_every=5)
COMMIT = (
    "ckpt.open",
    "ckpt.write",
    "ckpt.fsync",
    "ckpt.manifest",
    "ckpt.pre_rename",
    "ckpt.post_rename",
)
AFTER = ("ckpt.ledger", "ckpt.pointer", "ckpt.retain")


def begin(folder: Path, kind: str, process: int = 0) -> Canary:
    """One that stops at a save that fails."""
    return STARTS[kind](folder, Checkpoints(folder / "ckpt", 2), SETTING, process)


def begin_tolerant(folder: Path, kind: str) -> Canary:
    """One that goes on."""
    return STARTS[kind](folder, tolerate_failures(Checkpoints(folder / "ckpt", 2)), SETTING)


def at_save(canary: Canary, step: int, strike: Callable[[], object]) -> None:
    """Let something happen when the save of a step begins, and none is being written: once."""
    struck: list[int] = []

    def react(event: Event) -> None:
        if isinstance(event, Saving) and event.progress.step == step and not struck:
            struck.append(step)
            store = canary.job.checkpoints
            for thread in store._writing if isinstance(store, BackgroundCheckpoints) else ():
                thread.join()
            strike()

    canary.on_event.append(react)


def missed(canary: Canary) -> list[SaveMissed]:
    return [event for event in canary.seen.events if isinstance(event, SaveMissed)]


def assert_goes_on(folder: Path, at_least: int) -> None:
    """In a new process, from a checkpoint of that step or a later one, to the same bits."""
    arm("")
    canary = begin(folder, "in turn", process=100)
    ended = canary.fit()
    assert resumed_from(canary) >= at_least
    assert differences(everything(canary, ended), unbroken(SETTING)) == []


def assert_clean(folder: Path) -> None:
    assert not list(folder.rglob(".tmp-*"))
    assert not list(folder.rglob("replaced-*"))


@pytest.mark.parametrize("kind", STARTS)
@pytest.mark.parametrize("point", COMMIT)
def test_stop_ends_at_a_full_disk_with_what_was_there(
    point: str, kind: str, tmp_path: Path
) -> None:
    canary = begin(tmp_path, kind)
    at_save(canary, 6, lambda: arm(f"{point}:1:enospc"))
    with pytest.raises(StorageFailed, match="No space left") as caught:
        canary.fit()
    assert caught.value.exit_code == 13
    assert_clean(tmp_path)
    newest = Checkpoints(tmp_path / "ckpt", 2).newest_valid()
    assert isinstance(newest, Loaded)
    assert (newest.step, newest.rejected) == (5, ())
    assert_goes_on(tmp_path, at_least=5)


@pytest.mark.parametrize("kind", STARTS)
@pytest.mark.parametrize("point", COMMIT)
def test_continue_counts_and_tries_again(point: str, kind: str, tmp_path: Path) -> None:
    canary = begin_tolerant(tmp_path, kind)
    at_save(canary, 6, lambda: arm(f"{point}:1:enospc"))
    ended = canary.fit()
    assert differences(everything(canary, ended), unbroken(SETTING)) == []
    (miss,) = missed(canary)
    assert (miss.progress.step, miss.missed) == (6, 1)
    assert "No space left" in miss.why
    saved = [e.progress.step for e in canary.seen.events if isinstance(e, Saved)]
    assert 6 not in saved
    assert 8 in saved
    assert_clean(tmp_path)
    assert_goes_on(tmp_path, at_least=12)


@pytest.mark.parametrize("kind", STARTS)
@pytest.mark.parametrize("point", AFTER)
def test_a_disk_that_fills_up_after_the_commit_is_told_and_ends_nothing(
    point: str, kind: str, tmp_path: Path
) -> None:
    canary = begin(tmp_path, kind)
    at_save(canary, 6, lambda: arm(f"{point}:1:enospc"))
    ended = canary.fit()
    assert differences(everything(canary, ended), unbroken(SETTING)) == []
    (note,) = [e for e in canary.seen.events if getattr(e, "kind", "") == "checkpoint"]
    assert "the checkpoint is saved" in note.message
    assert_goes_on(tmp_path, at_least=12)


@pytest.mark.parametrize("kind", STARTS)
def test_continue_ends_well_without_another_checkpoint(kind: str, tmp_path: Path) -> None:
    canary = begin_tolerant(tmp_path, kind)
    at_save(canary, 6, lambda: arm("ckpt.write:*:enospc"))
    ended = canary.fit()
    assert (ended.kind, ended.progress) == ("finished", unbroken(SETTING)["progress"])
    assert [miss.missed for miss in missed(canary)] == [1, 2, 3, 4, 5]
    assert_goes_on(tmp_path, at_least=5)


@pytest.mark.parametrize("kind", STARTS)
def test_continue_does_not_say_that_a_run_can_go_on_when_its_last_steps_are_lost(
    kind: str, tmp_path: Path
) -> None:
    canary = begin_tolerant(tmp_path, kind)

    def full_and_told_to_stop() -> None:
        arm("ckpt.write:*:enospc")
        canary.flag.raise_flag("SIGTERM")

    at_save(canary, 6, full_and_told_to_stop)
    with pytest.raises(StorageFailed, match="No space left"):
        canary.fit()
    assert not [event for event in canary.seen.events if isinstance(event, Ended)]
    assert_goes_on(tmp_path, at_least=5)


@pytest.mark.parametrize("kind", STARTS)
def test_continue_does_not_begin_without_a_checkpoint(kind: str, tmp_path: Path) -> None:
    canary = begin_tolerant(tmp_path, kind)
    arm("ckpt.write:*:enospc")
    with pytest.raises(StorageFailed):
        canary.fit()
    assert canary.feed.samples == 0


@pytest.mark.parametrize("away", ["removed", "renamed"])
@pytest.mark.parametrize("kind", STARTS)
def test_stop_ends_when_the_folder_is_gone_and_makes_no_other(
    kind: str, away: str, tmp_path: Path
) -> None:
    canary = begin(tmp_path / "run", kind)

    def strike() -> None:
        if away == "removed":
            shutil.rmtree(tmp_path / "run")
        else:
            (tmp_path / "run").rename(tmp_path / "elsewhere")

    at_save(canary, 6, strike)
    with pytest.raises(StorageFailed):
        canary.fit()
    assert {path.name for path in tmp_path.iterdir()} <= {"elsewhere"}
    if away == "renamed":
        (tmp_path / "elsewhere").rename(tmp_path / "run")
        assert_goes_on(tmp_path / "run", at_least=5)


def test_continue_writes_nowhere_else_when_the_folder_is_gone(tmp_path: Path) -> None:
    canary = begin_tolerant(tmp_path / "run", "in turn")
    canary.change(observers=(Observers(canary.job.observers, lambda _: None),))
    at_save(canary, 6, lambda: shutil.rmtree(tmp_path / "run"))
    assert canary.fit().kind == "finished"
    assert len(missed(canary)) == 5
    assert not list(tmp_path.iterdir())


# The command, on a real small disk.

NETWORK = (
    with_layers("[96, 64]")
    + "training:\n  num_epochs: 3\n  batch_size: 32\n  checkpointing: {save_every_n_steps: 1"
)
KEEPS_ALL = NETWORK + ", keep_every_n_steps: 1}\n"


def remount(folder: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(folder)], check=True)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that is left alone."""
    folder = tmp_path_factory.mktemp("alone")
    write_project(folder, KEEPS_ALL)
    with inside(folder):
        ran = command("train", "small.yaml", "--run", "one")
        assert ran.code in (0, 3), ran.err
    return folder


@pytest.fixture
def weights(alone: Path) -> bytes:
    return (alone / "runs/one/bundle/network.safetensors").read_bytes()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    write_project(tmp_path, KEEPS_ALL)
    with inside(tmp_path):
        yield tmp_path


@pytest.mark.root
def test_a_disk_that_fills_up_in_the_training_and_is_made_larger(
    project: Path, weights: bytes
) -> None:
    with small_disk(project / "disk", 1600) as disk:
        ran = command("train", "small.yaml", "--run", "one", "--runs", disk)
        assert ran.code == 13, ran.err
        assert "are free and" in ran.err or "No space left" in ran.err
        assert "Traceback" not in ran.err
        assert_clean(disk)
        assert json.loads((disk / "one" / "record.json").read_text())["ending"]["exit_code"] == 13
        remount(disk, "size=64m")
        ran = command("train", "small.yaml", "--run", "one", "--runs", disk, "--resume")
        assert ran.code in (0, 3), ran.err
        assert "resumed" in ran.err
        assert (disk / "one" / "bundle" / "network.safetensors").read_bytes() == weights


def test_continue_from_the_contract_finishes_and_says_so(project: Path, weights: bytes) -> None:
    arm("ckpt.open:4:enospc")
    ran = train_one("training.checkpointing.on_failure=continue")
    assert ran.code in (0, 3), ran.err
    assert "step 3 is not saved (1 missed so far)" in ran.err
    assert Path("runs/one/bundle/network.safetensors").read_bytes() == weights
    assert [event["missed"] for event in events_of_one("save_missed")] == [1]


@pytest.mark.root
@pytest.mark.parametrize("verb", ["begin", "resume"])
def test_a_disk_that_cannot_be_written_to_is_refused_before_the_training(
    project: Path, verb: str
) -> None:
    with small_disk(project / "disk", 65536) as disk:
        words = ["train", "small.yaml", "--runs", disk, "--run", "one"]
        if verb == "resume":
            arm("step.done:5:raise")
            with pytest.raises(Exception, match=r"step\.done"):
                command(*words)
            arm("")
            words.append("--resume")
        remount(disk, "ro")
        before = tree(disk)
        ran = command(*words)
        assert ran.code in (2, 13), ran.err
        assert "Read-only file system" in ran.err
        assert "Traceback" not in ran.err
        assert tree(disk) == before
        remount(disk, "rw")


@pytest.mark.root
def test_a_disk_that_can_no_longer_be_written_to(
    project: Path, weights: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a folder")
    folder = Path("runs/one/checkpoints")

    reached: list[str] = []

    def make_read_only(point: str) -> None:
        reached.append(point)
        if reached.count("ckpt.snapshot") != 6:
            return
        subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)

    with monkeypatch.context() as patch:
        patch.setattr(save_policy, "reached", make_read_only)
        try:
            ran = command("train", "small.yaml", "--run", "one")
        finally:
            subprocess.run(["umount", str(folder)], check=True)
    assert ran.code == 13, ran.err
    assert "Read-only file system" in ran.err
    ran = command("train", "small.yaml", "--run", "one", "--resume")
    assert ran.code in (0, 3), ran.err
    assert Path("runs/one/bundle/network.safetensors").read_bytes() == weights


def test_a_model_that_the_disk_does_not_take_is_a_storage_error(
    alone: Path, tmp_path: Path
) -> None:
    """torch and safetensors have errors of their own for a full disk; they must not pass."""
    bundle = alone / "runs" / "one" / "bundle"
    predictor = trainwright.load(bundle)
    sizes = {path.name: path.stat().st_size for path in bundle.iterdir()}
    limit = sizes.pop("network.safetensors") - 1
    assert max(sizes.values()) < limit, "only the weights are too large"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with pytest.raises(StorageFailed, match="File too large"):
            write_bundle(predictor, tmp_path / "bundle", {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


def test_a_folder_of_checkpoints_that_cannot_be_written_to(project: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    (project / "ckpt").mkdir(mode=0o555)
    with pytest.raises(StorageFailed, match="cannot be written"):
        Checkpoints(project / "ckpt", 1).newest_valid()
