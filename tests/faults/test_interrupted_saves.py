"""Saves that are cut short by death or by the disk. Rows F-01, F-03, F-16 and F-19."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from faults.disks import small_disk
from faults.three_checkpoints import LAST, load, parts_of
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import Checkpoints, Loaded, NoCheckpoint
from trainwright.core.errors import StorageFailed

pytestmark = pytest.mark.torch


# A process that dies in the middle of a save, or of what follows it.

POINTS = [
    "ckpt.open",
    "ckpt.write",
    "ckpt.fsync",
    "ckpt.manifest",
    "ckpt.pre_rename",
    "ckpt.post_rename",
    "ckpt.ledger",
    "ckpt.pointer",
    "ckpt.retain",
]


@pytest.mark.row("F-01")
@pytest.mark.parametrize("same_step", [False, True])
@pytest.mark.parametrize("point", POINTS)
def test_death_at_any_point_of_a_save(
    three: Path, point: str, same_step: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = 3 if same_step else 4

    def die(reached: str) -> None:
        if reached == point:
            os._exit(9)

    child = os.fork()
    if child == 0:
        # Both modules hold the function by its name.
        from trainwright.checkpoint import store
        from trainwright.checkpoint.storages import commit, local_storage

        commit.reached = local_storage.reached = store.reached = die  # type: ignore[assignment]
        Checkpoints(three, 3).save(step, parts_of(step), {"seed": 1})
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    found = load(three)
    committed = point in POINTS[POINTS.index("ckpt.post_rename") :]
    assert found.rejected == ()
    assert found.step == (step if committed or same_step else 3)
    assert found.inventory == {"seed": 1 if committed else 0}
    left = {path.name for path in three.iterdir() if not path.name.startswith("step-")}
    assert left == {"ledger.jsonl", "pointers.json"}
    Checkpoints(three, 3).save(5, parts_of(5), {})
    assert load(three).step == 5


SAVE_FOR_EVER = """
import sys, torch
from pathlib import Path
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import Checkpoints
checkpoints = Checkpoints(Path(sys.argv[1]), 2)
for step in range(1, 10**6):
    state = {"model": Snapshot(tensors={"w": torch.full((20000,), float(step))}, values=step)}
    checkpoints.save(step, state, {})
    print(step, flush=True)
"""


@pytest.mark.row("F-03")
def test_killed_while_saving_without_a_pause(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SAVE_FOR_EVER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    acknowledged = 0
    for acknowledged in (int(line) for line in process.stdout):
        if acknowledged == 25:
            process.send_signal(signal.SIGKILL)
            break
    rest = process.stdout.read().split()
    process.stdout.close()
    process.wait()
    acknowledged = int(rest[-1]) if rest else acknowledged
    found = Checkpoints(tmp_path, 2).newest_valid()
    assert isinstance(found, Loaded)
    assert found.step in (acknowledged, acknowledged + 1)
    assert torch.equal(found.parts["model"].tensors["w"], torch.full((20000,), float(found.step)))


# A disk that takes nothing more.


def big(step: int, mebibytes: int) -> dict[str, Snapshot]:
    return {"model": Snapshot(tensors={"w": torch.full((mebibytes << 18,), float(step))})}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "small", 8192) as folder:
        yield folder


@pytest.mark.row("F-16")
@pytest.mark.root
def test_a_full_disk(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(disk, 2)
    checkpoints.save(1, big(1, 2), {})
    (disk / "filler").write_bytes(bytes(4 << 20))
    used = shutil.disk_usage(disk).used
    with pytest.raises(StorageFailed, match="are free and"):
        checkpoints.save(2, big(2, 2), {})
    # The same without the look ahead: another process took the space in between.
    monkeypatch.setattr("trainwright.checkpoint.storages.commit._check_room", lambda *_: None)
    with pytest.raises(StorageFailed, match="No space left"):
        checkpoints.save(2, big(2, 3), {})
    assert shutil.disk_usage(disk).used == used
    found = Checkpoints(disk, 2).newest_valid()
    assert isinstance(found, Loaded)
    assert (found.step, found.rejected) == (1, ())
    (disk / "filler").unlink()
    checkpoints.save(3, big(3, 2), {})
    assert checkpoints.newest_valid().step == 3  # type: ignore[union-attr]


@pytest.mark.row("F-16")
def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 2)
    checkpoints.save(1, big(1, 1), {})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(StorageFailed, match="File too large"):
            checkpoints.save(2, big(2, 3), {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.glob(".tmp-*"))
    checkpoints.save(3, big(3, 3), {})
    assert Checkpoints(tmp_path, 2).newest_valid().step == 3  # type: ignore[union-attr]


@pytest.mark.row("F-16")
@pytest.mark.parametrize("point", POINTS[: POINTS.index("ckpt.ledger")])
@pytest.mark.parametrize("step", [3, 4])
def test_an_error_at_any_point_leaves_what_was_there(
    three: Path, point: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(reached: str) -> None:
        if reached == point:
            raise OSError(28, "No space left on device")

    checkpoints = Checkpoints(three, 3)
    monkeypatch.setattr("trainwright.checkpoint.storages.commit.reached", fail)
    with pytest.raises(StorageFailed):
        checkpoints.save(step, parts_of(step), {"seed": 1})
    names = {path.name for path in three.iterdir()}
    assert names == {"step-0000000001", "step-0000000002", LAST, "ledger.jsonl", "pointers.json"}
    found = load(three)
    assert (found.step, found.inventory, found.rejected) == (3, {"seed": 0}, ())
    monkeypatch.undo()
    checkpoints.save(step, parts_of(step), {"seed": 2})
    assert load(three).inventory == {"seed": 2}


@pytest.mark.row("F-19")
def test_the_folder_was_deleted(three: Path) -> None:
    checkpoints = Checkpoints(three, 3)
    checkpoints.newest_valid()
    shutil.rmtree(three)
    with pytest.raises(StorageFailed):
        checkpoints.save(4, parts_of(4), {})
    assert not three.exists()


def test_nothing_is_left_of_a_save_before_the_first(tmp_path: Path) -> None:
    (tmp_path / ".tmp-dead").mkdir()
    (tmp_path / ".tmp-dead" / "values.json").write_bytes(b"half")
    assert isinstance(Checkpoints(tmp_path, 1).newest_valid(), NoCheckpoint)
    assert not list(tmp_path.iterdir())
