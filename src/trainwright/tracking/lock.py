"""Run lock: one process owns a run folder, whose contents are regular files.

The lock is one that the kernel releases when the process dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import stat
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self, final

from trainwright.core.errors import Mistake, Problem, RunLocked, StorageFailed
from trainwright.core.files import FILE_MODE
from trainwright.tracking.clock import SystemClock, show_time

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_HOLDER_BYTES = 4096
_WAIT_FOR_NAME_SECONDS = 1.0
_WAIT_FOR_LOCK_SECONDS = 0.05
_held: set[int] = set()


def check_contents(path: Path) -> None:
    """Refuse a run folder with a link that leads outside, a pipe, a socket or a device: writing
    through the former changes files elsewhere, reading the latter may block forever.

    Raises:
        Mistake: there is one. StorageFailed: a folder in it cannot be listed.
    """
    root = path.resolve()
    for entry in _entries(path):
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except FileNotFoundError:  # a run that is at work removes what it no longer needs
            continue
        if stat.S_ISLNK(mode):
            try:
                target = Path(entry.path).resolve()
            except (OSError, RuntimeError) as error:
                raise _refused(Path(entry.path), "a link that leads to itself") from error
            if not target.is_relative_to(root):
                raise _refused(Path(entry.path), f"a link to {target}")
        elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise _refused(Path(entry.path), "a pipe, a socket or a device")


def _entries(path: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(path) as listed:
            entries = list(listed)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageFailed(f"listing {path}: {error.strerror or error}") from error
    for entry in entries:
        yield entry
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(Path(entry.path))


def _refused(path: Path, found: str) -> Mistake:
    return Mistake(
        Problem(
            "a run folder holds files and folders only, and no link that leads out of it",
            found=f"{path}: {found}",
            expected="a file or a folder",
            fix="remove it, or put the file itself in its place",
        )
    )


def _close_in_child() -> None:
    # A forked worker shares the open file, and would hold the lock after its parent has died.
    for descriptor in _held:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)


@dataclass(frozen=True, slots=True)
class Holder:
    """Process that owns a run folder; `started_ticks` distinguishes it from a later one with its
    pid."""

    pid: int
    started_ticks: int
    boot_id: str
    host: str
    since: str

    @classmethod
    def this_process(cls) -> Self:
        """The calling process."""
        return cls(
            pid=os.getpid(),
            started_ticks=_started_ticks(os.getpid()),
            boot_id=_boot_id(),
            host=socket.gethostname(),
            since=show_time(SystemClock().now()),
        )

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"

    def is_alive_here(self) -> bool:
        """Is this very process running on this machine now?"""
        ticks = _started_ticks(self.pid)
        return ticks != 0 and ticks == self.started_ticks and self.boot_id == _boot_id()


@dataclass(frozen=True, slots=True)
class NoHolder:
    """No process has written its name into the lock file, or it cannot be read."""

    def __str__(self) -> str:
        return "a process that has not written its name"

    def is_alive_here(self) -> bool:
        """Never alive."""
        return False


@final
class RunLock:
    """Exclusive write access to a run folder; a context manager.

    Held with `flock`, so it ends with the process however that dies, and the file may stay behind:
    only the name in it is then stale. On file systems that do not share `flock` between machines it
    protects only against processes of the same machine.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        _held.add(descriptor)

    @classmethod
    def acquire(cls, path: Path) -> Self:
        """Take the lock.

        Raises:
            RunLocked: another process holds it; the message names it. StorageFailed: the file
                cannot be created.
        """
        while True:
            try:
                descriptor = os.open(path, _FLAGS, FILE_MODE)
            except OSError as error:
                raise StorageFailed(f"opening {path}: {error.strerror or error}") from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                raise RunLocked(
                    f"{path.parent} is in use by {_named_holder(path)}. "
                    "Wait until it has ended, or stop it, or start another run."
                ) from None
            except OSError as error:
                os.close(descriptor)
                raise StorageFailed(f"locking {path}: {error.strerror or error}") from error
            if _is_same_file(descriptor, path):
                break
            os.close(descriptor)
        lock = cls(descriptor)
        lock._write_name()
        return lock

    @classmethod
    def wait_until_free(cls, path: Path, seconds: float) -> None:
        """Wait for the end of a process that holds the lock, such as one that dies with another.

        Raises:
            As `acquire`: it still holds it after so many seconds.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                cls.acquire(path).release()
                return
            except RunLocked:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_WAIT_FOR_LOCK_SECONDS)

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._descriptor in _held:
            _held.discard(self._descriptor)
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
            # Unlocked explicitly: closing is not enough while a child is between fork and its hook.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _write_name(self) -> None:
        name = json.dumps(asdict(Holder.this_process())).encode()
        # The name is only for messages: a full disk must not prevent a run from continuing.
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, name, 0)


def read_holder(path: Path) -> Holder | NoHolder:
    """Last writer of the lock file; it may be dead."""
    try:
        with path.open("rb") as stream:
            fields = json.loads(stream.read(_HOLDER_BYTES))
        return Holder(
            pid=int(fields["pid"]),
            started_ticks=int(fields["started_ticks"]),
            boot_id=str(fields["boot_id"]),
            host=str(fields["host"]),
            since=str(fields["since"]),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return NoHolder()


def _named_holder(path: Path) -> Holder | NoHolder:
    # The winner of a race takes the lock just before it writes its name.
    deadline = time.monotonic() + _WAIT_FOR_NAME_SECONDS
    holder = read_holder(path)
    while not holder.is_alive_here() and time.monotonic() < deadline:
        time.sleep(0.01)
        holder = read_holder(path)
    return holder


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def _started_ticks(pid: int) -> int:
    """Start of a process in clock ticks since boot (proc(5), field 22 of stat); 0 if it does not
    exist."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    # The name, field 2, is in parentheses and may contain anything, even parentheses.
    return int(text.rpartition(")")[2].split()[19])


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
