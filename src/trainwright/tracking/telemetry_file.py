"""`windows.jsonl`: the numbers of each window of steps, one line a window, dated."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, final

from trainwright.core.errors import Mistake, Place, Problem, StorageFailed
from trainwright.core.files import Json
from trainwright.tracking.event_log import LineFile, size_up_to, whole_lines
from trainwright.tracking.events import number_from_json, number_to_json, numbers_to_json

_SECONDS = 1.0


@final
@dataclass(frozen=True, slots=True)
class WindowLine:
    """What is known of a window of steps.

    `step` is its last applied step, `epoch` that step's epoch, `steps` how many it has, `seconds`
    the wall time in which this process made them, without validations and checkpoints. `numbers`
    are named `<what>` or `<what>/<where>`, for example `weight_norm/blocks.0`; the file keeps six
    digits of each.
    """

    step: int
    epoch: int
    steps: int
    seconds: float
    numbers: Mapping[str, float]

    def to_json(self) -> Json:
        """Strict JSON; the step comes first, by which the file is cut."""
        return {
            "step": self.step,
            "epoch": self.epoch,
            "steps": self.steps,
            "seconds": number_to_json(float(f"{self.seconds:.6g}")),
            "numbers": numbers_to_json(
                {name: float(f"{value:.6g}") for name, value in self.numbers.items()}
            ),
        }


class WindowLines(Protocol):
    """Where a line for each window goes."""

    def append(self, line: WindowLine) -> None:
        """Take a line behind the others."""
        ...

    def sync(self) -> None:
        """Come back when every line is safe."""
        ...

    def cut(self, step: int) -> None:
        """Keep the lines up to and with `step`; what follows will be executed again."""
        ...


@final
class WindowFile:
    """The lines of `windows.jsonl`, written at most once a second: opening a file costs more than
    measuring a small network."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = LineFile(path)
        self._waiting: list[str] = []
        self._due = 0.0
        self._unsynced = False

    def append(self, line: WindowLine) -> None:
        """Take a window, and write those that wait if it is time.

        Raises:
            StorageFailed: the lines wait in memory for the next one.
        """
        dated = {**line.to_json(), "time": round(time.time(), 3)}
        self._waiting.append(json.dumps(dated, allow_nan=False) + "\n")
        if time.monotonic() >= self._due:
            self._write(sync=False)

    def sync(self) -> None:
        """Write what waits, and come back when every line is on the disk.

        Raises:
            StorageFailed: not all of them are.
        """
        if self._unsynced or self._waiting:
            self._write(sync=True)

    def cut(self, step: int) -> None:
        """Keep the windows up to and with `step`.

        Raises:
            StorageFailed: the file is as it was.
        """
        self._write(sync=False)
        self._file.cut(size_up_to(self._path, step))

    def _write(self, *, sync: bool) -> None:
        self._due = time.monotonic() + _SECONDS
        text = "".join(self._waiting)
        self._waiting.clear()
        self._unsynced = True
        self._file.append(text, sync=sync)
        self._unsynced = not sync


@final
class NoLines:
    """Keeps no line, for who wants the watches alone."""

    def append(self, line: WindowLine) -> None:
        """Forget it."""

    def sync(self) -> None:
        """Nothing to wait for."""

    def cut(self, step: int) -> None:
        """Nothing to cut."""


def read_windows(path: Path) -> list[WindowLine]:
    """The windows of `windows.jsonl` in order; none if there is no such file. A last line that was
    torn by a crash is skipped.

    Raises:
        Mistake: another line is not what a window's is. StorageFailed: not readable.
    """
    try:
        lines = whole_lines(path)
    except OSError as error:
        raise StorageFailed(f"reading {path}: {error.strerror or error}") from error
    return [_parse(path, number, line) for number, line in enumerate(lines, start=1)]


def _parse(path: Path, number: int, line: bytes) -> WindowLine:
    try:
        row = json.loads(line)
        return WindowLine(
            int(row["step"]),
            int(row["epoch"]),
            int(row["steps"]),
            number_from_json(row["seconds"]),
            {str(name): number_from_json(value) for name, value in row["numbers"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Mistake(
            Problem(
                "this line does not hold the numbers of a window",
                expected="a JSON object with step, epoch, steps, seconds and numbers",
                fix="remove the line",
                place=Place(str(path), number),
            )
        ) from None
