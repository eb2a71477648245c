"""`events.jsonl`: rare events, numbered and dated, on lines that survive a full disk."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import final

from trainwright.core.errors import StorageFailed
from trainwright.core.faultpoints import reached
from trainwright.core.files import FILE_MODE, Json
from trainwright.tracking.clock import Clock, SystemClock, show_time
from trainwright.tracking.events import Event, SaveBegun, Saving, StepKept

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


@final
class EventLog:
    """Appends rare events to a file, each one durable before `observe` returns.

    `sequence` increases by one per event, across resumes; the time is for display and may jump with
    the machine's clock.
    """

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self._path = path
        self._clock: Clock = SystemClock() if clock is None else clock
        self._file = LineFile(path)
        self._sequence = 0
        self._opened = False

    def observe(self, event: Event) -> None:
        """Append a rare event.

        Raises:
            StorageFailed: the event is buffered for the next append.
        """
        # The first of them occurs at every step, and comparing types is cheapest.
        if type(event) is StepKept or isinstance(event, StepKept | Saving | SaveBegun):
            return
        if not self._opened:
            self._go_on()
        self._sequence += 1
        entry = {"sequence": self._sequence, "time": show_time(self._clock.now())}
        text = json.dumps({**entry, **event.to_json()}, ensure_ascii=True, allow_nan=False)
        self._file.append(text + "\n", sync=True)

    def _go_on(self) -> None:
        try:
            lines = whole_lines(self._path)
        except OSError as error:
            raise StorageFailed(f"reading {self._path}: {error.strerror or error}") from error
        # A torn last line would otherwise be joined with the next event.
        self._file.cut(sum(len(line) + 1 for line in lines))
        self._sequence = max((_sequence(line) for line in lines), default=0)
        self._opened = True


def read_events(path: Path) -> list[Json]:
    """The events of `events.jsonl` in order; lines that are not JSON objects are skipped.

    Raises:
        StorageFailed: not readable.
    """
    try:
        lines = whole_lines(path)
    except OSError as error:
        raise StorageFailed(f"reading {path}: {error.strerror or error}") from error
    return [entry for entry in map(_parse, lines) if entry]


def _parse(line: bytes) -> dict[str, Json]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


def _sequence(line: bytes) -> int:
    number = _parse(line).get("sequence", 0)
    return number if isinstance(number, int) else 0
