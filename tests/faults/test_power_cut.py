"""Power cuts: what a disk holds at a random moment always has a checkpoint to go on from. Row F-04.

A process saves without a pause onto an ext4 file system that writes its journal only when it is
told to. At random moments it is held, and the image of the disk is copied: what had not been synced
is not in the copy. Each copy is mounted, which replays its journal, and read.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from trainwright.checkpoint.store import Checkpoints, Loaded

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.root]

CUTS = 50
SAVE_FOR_EVER = """
import os, sys, torch
from pathlib import Path
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import Checkpoints
checkpoints = Checkpoints(Path(sys.argv[1]), 2)
acknowledged = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
for step in range(1, 10**6):
    state = {"model": Snapshot(tensors={"w": torch.full((5000,), float(step))}, values=step)}
    checkpoints.save(step, state, {}, 1 / step if step % 3 else float(step))
    os.pwrite(acknowledged, b"%12d" % step, 0)
"""


@contextmanager
def mounted(image: Path, folder: Path) -> Iterator[Path]:
    folder.mkdir()
    words = ["mount", "-o", "loop,commit=300", str(image), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this machine mounts no image: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("a file system in a file needs root and mkfs.ext4")
    path = tmp_path / "disk.img"
    with path.open("wb") as stream:
        stream.truncate(24 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(path)], check=True)
    return path


@pytest.mark.slow
@pytest.mark.row("F-04")
def test_every_power_cut_leaves_a_checkpoint(
    image: Path, tmp_path: Path, figure: Callable[..., None]
) -> None:
    draw = random.Random(4)
    told = tmp_path / "acknowledged"
    copies: list[tuple[Path, int]] = []
    with mounted(image, tmp_path / "disk") as disk:
        words = [sys.executable, "-c", SAVE_FOR_EVER, str(disk / "ckpt"), str(told)]
        process = subprocess.Popen(words)
        try:
            while not told.exists() or not told.read_bytes():
                time.sleep(0.05)
            for number in range(CUTS):
                time.sleep(draw.uniform(0, 0.12))
                process.send_signal(signal.SIGSTOP)
                acknowledged = int(told.read_bytes())
                copy = tmp_path / f"copy-{number}.img"
                shutil.copyfile(image, copy)
                process.send_signal(signal.SIGCONT)
                copies.append((copy, acknowledged))
        finally:
            process.kill()
            process.wait()
    for number, (copy, acknowledged) in enumerate(copies):
        with mounted(copy, tmp_path / f"mount-{number}") as disk:
            check_newest(disk / "ckpt", acknowledged)
        copy.unlink()
    figure(power_cuts=len(copies), checkpoints_lost=0, most_saves=copies[-1][1])


def check_newest(folder: Path, acknowledged: int) -> None:
    """The newest checkpoint verifies and is not older than the last one acknowledged. Its tensors
    are mapped from the disk, which cannot be unmounted before they are gone."""
    found = Checkpoints(folder, 2).newest_valid()
    assert isinstance(found, Loaded)
    assert found.rejected == ()
    assert acknowledged <= found.step <= acknowledged + 1
    assert found.parts["model"].tensors["w"].eq(found.step).all()
