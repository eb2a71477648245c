"""`events.jsonl`: rare events, numbered and dated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import final

from trainwright.core.errors import StorageFailed
from trainwright.core.files import Json
from trainwright.tracking.append_only_file import LineFile, whole_lines
from trainwright.tracking.clock import Clock, SystemClock, show_time
from trainwright.tracking.events import Event, SaveBegun, Saving, StepKept


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
