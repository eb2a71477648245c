"""Append-only line files that survive a full disk without a torn line."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import final

from trainwright.core.errors import StorageFailed
from trainwright.core.faultpoints import reached
from trainwright.core.files import FILE_MODE

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_SPOOL_BYTES = 16 * 1024 * 1024
_STEP = re.compile(rb'\{"step": (\d+),')
_LINE_OF_STEP = re.compile(rb'\{"step": (\d+), .*\}\n')


@final
class LineFile:
    """Appends whole lines.

    Lines that cannot be written are buffered, up to 16 MiB, for the next append; `lost_lines`
    counts those that were discarded.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting = b""
        self.lost_lines = 0

    def append(self, text: str, *, sync: bool) -> None:
        """Append `text`, which ends with a newline; `sync` waits until it is durable.

        Raises:
            StorageFailed: nothing was appended; the lines are buffered for the next append.
        """
        self._waiting += text.encode()
        try:
            self._write(sync)
        except OSError as error:
            self._limit_spool()
            raise StorageFailed(f"writing {self._path}: {error.strerror or error}") from error

    def cut(self, size: int) -> None:
        """Truncate the file to `size` bytes, if it exists.

        Raises:
            StorageFailed: the file is unchanged.
        """
        try:
            descriptor = os.open(
                self._path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            )
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageFailed(f"opening {self._path}: {error.strerror or error}") from error
        try:
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)
        except OSError as error:
            raise StorageFailed(f"cutting {self._path}: {error.strerror or error}") from error
        finally:
            os.close(descriptor)

    def _write(self, sync: bool) -> None:
        descriptor = os.open(self._path, _FLAGS, FILE_MODE)
        try:
            before = os.fstat(descriptor).st_size
            try:
                rest = memoryview(self._waiting)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                reached("log.append")
            except OSError:
                os.ftruncate(descriptor, before)
                raise
            self._waiting = b""
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _limit_spool(self) -> None:
        if len(self._waiting) > _SPOOL_BYTES:
            self.lost_lines += self._waiting.count(b"\n")
            self._waiting = b""


def whole_lines(path: Path) -> list[bytes]:
    """The lines of `path` that end with a newline, without it; none if there is no such file.

    Anything after the last newline was being written when the process died and is not a line.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    return data.split(b"\n")[:-1]


def last_step(path: Path) -> int:
    """Step of the last complete line, with which each line begins; 0 if there is none."""
    lines = whole_lines(path)
    match = _STEP.match(lines[-1]) if lines else None
    return int(match[1]) if match else 0


def size_up_to(path: Path, step: int) -> int:
    """Bytes of the lines up to and including `step`, with which each line begins; nothing after the
    first corrupt line is counted.

    Raises:
        StorageFailed: not readable.
    """
    size = 0
    try:
        with path.open("rb") as stream:
            for line in stream:
                match = _LINE_OF_STEP.fullmatch(line)
                if match is None or int(match[1]) > step:
                    break
                size += len(line)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise StorageFailed(f"reading {path}: {error.strerror or error}") from error
    return size
