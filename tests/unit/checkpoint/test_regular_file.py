"""Reading a file of a checkpoint from a disk that fails, or whose file becomes shorter."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trainwright.checkpoint.files.file_entry import read_file
from trainwright.checkpoint.strict_json import Damaged
from trainwright.core.errors import StorageFailed

PAGES = 64 * 4096


def read(folder: Path) -> bytes:
    return bytes(read_file(folder, "file", PAGES)[:])


def failing(number: int) -> Callable[..., int]:
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return fail


def test_every_byte_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = os.urandom(PAGES)
    (tmp_path / "file").write_bytes(written)
    assert read(tmp_path) == written
    whole = os.preadv
    # A kernel may give less than it is asked for.
    monkeypatch.setattr(os, "preadv", lambda fd, room, at: whole(fd, [room[0][:1000]], at))
    assert read(tmp_path) == written


def test_a_bad_sector_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"1")
    monkeypatch.setattr(os, "preadv", failing(errno.EIO))
    with pytest.raises(Damaged, match="file: Input/output error"):
        read(tmp_path)


def test_a_mount_that_is_gone_may_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"1")
    monkeypatch.setattr(os, "preadv", failing(errno.ESTALE))
    with pytest.raises(StorageFailed, match="reading"):
        read(tmp_path)


CUT = """
import os, sys
from pathlib import Path
from trainwright.checkpoint.files.file_entry import read_file

folder, when = Path(sys.argv[1]), sys.argv[2]
size = os.path.getsize(folder / "file")
find = os.fstat

def found(descriptor):
    about = find(descriptor)
    if when == "before":
        os.truncate(folder / "file", 4096)
    return about

os.fstat = found
data = read_file(folder, "file", size)
os.truncate(folder / "file", 4096)
print(len(data), len(bytes(data)))
"""


@pytest.mark.parametrize(("when", "left"), [("before", 4096), ("behind", PAGES)])
def test_a_file_that_is_cut_short_ends_no_process(tmp_path: Path, when: str, left: int) -> None:
    """In a process of its own: looking at a page that is gone would end this one."""
    (tmp_path / "file").write_bytes(bytes(PAGES))
    done = subprocess.run(
        [sys.executable, "-c", CUT, str(tmp_path), when],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (0, [str(left)] * 2), done.stderr
