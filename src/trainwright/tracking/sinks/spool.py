"""The files of a training as points for a tracker: what the cursor has not passed yet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, final

from trainwright.core.files import Json
from trainwright.tracking.event_log import size_up_to
from trainwright.tracking.events import number_from_json
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.signals import OWN
from trainwright.tracking.sinks.cursor import Cursor

_MOST_BYTES = 256 * 1024
_NOT_NUMBERS = ("step", "time")
_REPEATS = ("rolled_back", "step_dropped")
"""Events after which steps are executed again, with other numbers; after `resumed` they are the
same numbers."""


class Point(NamedTuple):
    """A number of a step, with the time of its line in milliseconds since 1970."""

    name: str
    value: float
    step: int
    milliseconds: int


@dataclass(frozen=True, slots=True)
class PointBatch:
    """Points in the order of their files, and the cursor after them. `rewound` says that points
    above the cursor of this batch have been sent and are invalid now."""

    points: tuple[Point, ...]
    cursor: Cursor
    rewound: bool = False


@final
class LineTail:
    """The lines of a file that grows, at most 256 KiB at a time."""

    def __init__(self, path: Path, offset: int) -> None:
        self._path = path
        self.offset = offset

    def read(self) -> list[dict[str, Json]]:
        """The next complete lines that are JSON objects; none of a file that was cut."""
        try:
            with self._path.open("rb") as stream:
                stream.seek(self.offset)
                data = stream.read(_MOST_BYTES)
        except FileNotFoundError:
            return []
        data = data[: data.rfind(b"\n") + 1]
        self.offset += len(data)
        return list(_objects(data))


def _objects(data: bytes) -> Iterator[dict[str, Json]]:
    for line in data.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


@final
class Spool:
    """Reads what the cursor of a training has not passed.

    An event that steps are repeated is written after the lines of these steps were cut, and events
    are read after the lines. So lines read before such an event may be invalid, and are read again.
    """

    def __init__(self, folder: RunFolder, cursor: Cursor) -> None:
        self._folder = folder
        self._seek(cursor)
        self._events = LineTail(folder.events, 0)

    def _seek(self, cursor: Cursor) -> None:
        signals, windows = self._folder.signals, self._folder.windows
        self._signals = LineTail(signals, size_up_to(signals, cursor.signals))
        self._windows = LineTail(windows, size_up_to(windows, cursor.windows))

    def read(self, cursor: Cursor) -> PointBatch:
        """The next points after `cursor`, which is unchanged; none if there are none yet.

        Raises:
            OSError, StorageFailed: a file is not readable.
        """
        after = deepcopy(cursor)
        signals, windows = self._signals.read(), self._windows.read()
        points: list[Point] = []
        for event in self._events.read():
            if int(event.get("sequence", 0)) <= after.sequence:
                continue
            after.sequence = int(event["sequence"])
            kind, step = event.get("event"), int(event.get("step", 0))
            if kind == "validated" and step > after.validated:
                points += _points(event["values"], step, milliseconds_of(event["time"]))
                after.validated = step
            elif kind in (*_REPEATS, "resumed"):
                rewound = kind in _REPEATS and after.rewind(step)
                self._seek(after)
                self._events.offset = 0
                return PointBatch(tuple(points), after, rewound)
        for line in signals:
            if (step := int(line["step"])) > after.signals:
                numbers = {name: line[name] for name in line if name not in _NOT_NUMBERS}
                points += _points(numbers, step, round(1000 * line.get("time", 0)))
                after.signals = step
        for line in windows:
            if (step := int(line["step"])) > after.windows:
                named = {_name_in_windows(name): value for name, value in line["numbers"].items()}
                points += _points(named, step, round(1000 * line.get("time", 0)))
                after.windows = step
        return PointBatch(tuple(points), after)


def _points(numbers: dict[str, Json], step: int, milliseconds: int) -> Iterator[Point]:
    for name, value in numbers.items():
        yield Point(name, number_from_json(value), step, milliseconds)


def _name_in_windows(name: str) -> str:
    """Signals of the user are means over a window there, and single steps in `signals.jsonl`."""
    return f"window/{name}" if name.startswith(OWN) else name


def milliseconds_of(shown: str) -> int:
    """Milliseconds since 1970 of a time in ISO format."""
    return round(1000 * datetime.fromisoformat(shown).timestamp())
