"""One process owns the folder of a run. Row F-41."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.tiers import times
from trainwright.core.errors import RunLocked, StorageFailed
from trainwright.tracking.lock import Holder, RunLock, read_holder

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


@pytest.mark.extended
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
    for text in (b"", b"{", b"[]", b'{"pid": 1}', b"[" * 1000, b"\xff"):
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
