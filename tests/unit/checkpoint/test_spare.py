"""A checkpoint is written over one that was removed, and nobody can tell."""

from __future__ import annotations

import gc
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("torch")

import torch

from trainwright.checkpoint.files.file_entry import name_of
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import Checkpoints, Loaded
from trainwright.core.errors import StorageFailed
from trainwright.core.faultpoints import arm
from trainwright.core.files import read_umask

pytestmark = pytest.mark.torch


def save(checkpoints: Checkpoints, step: int, numbers: int = 1000, *others: str) -> None:
    parts = {
        name: Snapshot(tensors={"w": torch.full((numbers,), float(step))}, values=step)
        for name in ("model", *others)
    }
    checkpoints.save(step, parts, {})


def newest(folder: Path) -> Loaded:
    found = Checkpoints(folder, 1).newest_valid()
    assert isinstance(found, Loaded)
    assert not found.rejected
    return found


def files_of(folder: Path, step: int) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in (folder / name_of(step)).iterdir()}


def kept(folder: Path) -> list[Path]:
    return list(folder.glob(".tmp-*"))


def test_the_files_of_a_removed_checkpoint_are_written_over(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 1)
    for step in range(3):
        save(checkpoints, step)
    assert len(kept(tmp_path)) == 1
    removed = {path.name: path.stat().st_ino for path in kept(tmp_path)[0].iterdir()}
    save(checkpoints, 3)
    assert files_of(tmp_path, 3) == removed
    loaded = newest(tmp_path)
    assert loaded.step == 3
    assert torch.equal(loaded.parts["model"].tensors["w"], torch.full((1000,), 3.0))


@pytest.mark.parametrize(("numbers", "others"), [(10, ()), (5000, ()), (1000, ("more",))])
def test_smaller_larger_and_other_files_leave_nothing_of_the_old(
    numbers: int, others: tuple[str, ...], tmp_path: Path
) -> None:
    over, fresh = Checkpoints(tmp_path / "over", 1), Checkpoints(tmp_path / "fresh", 1)
    for step in range(3):
        save(over, step, 1000, "gone")
    save(over, 3, numbers, *others)
    save(fresh, 3, numbers, *others)
    sizes = [
        {path.name: path.stat().st_size for path in (folder / name_of(3)).glob("*.safetensors")}
        for folder in (tmp_path / "over", tmp_path / "fresh")
    ]
    assert sizes[0] == sizes[1] != {}
    assert newest(tmp_path / "over").step == 3
    assert set(newest(tmp_path / "over").parts) == {"model", *others}


def test_a_file_that_lies_elsewhere_too_keeps_its_bytes(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "run", 1)
    for step in range(2):
        save(checkpoints, step)
    shutil.copytree(tmp_path / "run" / name_of(0), tmp_path / "backup", copy_function=os.link)
    before = {path.name: path.read_bytes() for path in (tmp_path / "backup").iterdir()}
    for step in range(2, 6):
        save(checkpoints, step)
    assert {path.name: path.read_bytes() for path in (tmp_path / "backup").iterdir()} == before
    assert newest(tmp_path / "run").step == 5


def test_what_a_person_did_to_a_removed_one_is_not_in_the_next(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 1)
    for step in range(2):
        save(checkpoints, step)
    one = tmp_path / name_of(0)
    (one / "notes").mkdir()
    (one / "notes" / "a.txt").write_text("mine")
    one.chmod(0o750)
    (one / "model.safetensors").chmod(0o444)
    (one / "values.json").chmod(0o640)
    for step in range(2, 4):
        save(checkpoints, step)
    written = tmp_path / name_of(3)
    assert {path.stat().st_mode & 0o777 for path in written.iterdir()} == {0o666 & ~read_umask()}
    assert written.stat().st_mode & 0o777 == 0o777 & ~read_umask()
    assert newest(tmp_path).step == 3
    assert not (written / "notes").exists()


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_it_is_given_up_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(tmp_path, 1)
    for step in range(3):
        save(checkpoints, step)
    room = 10 * 2**20

    def usage(_: Path) -> Usage:
        return Usage(room, 0, 0 if kept(tmp_path) else room)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    save(checkpoints, 3)
    assert newest(tmp_path).step == 3


@pytest.mark.parametrize("point", ["ckpt.write", "ckpt.fsync", "ckpt.manifest", "ckpt.pre_rename"])
def test_a_save_that_fails_over_an_old_one_leaves_the_others(point: str, tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 1)
    for step in range(3):
        save(checkpoints, step)
    arm(f"{point}:1:enospc")
    with pytest.raises(StorageFailed):
        save(checkpoints, 3)
    assert kept(tmp_path) == []
    assert newest(tmp_path).step == 2
    save(checkpoints, 3)
    assert newest(tmp_path).step == 3


@pytest.mark.extended
def test_it_goes_with_what_saves(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 1)
    for step in range(3):
        save(checkpoints, step)
    if (child := os.fork()) == 0:
        del checkpoints
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert len(kept(tmp_path)) == 1
    del checkpoints
    gc.collect()
    assert kept(tmp_path) == []
