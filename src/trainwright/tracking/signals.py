"""The numbers of every step: buffered, read from the device in groups, one line a step."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import final

from trainwright.core.errors import Mistake, Place, Problem, StorageFailed
from trainwright.core.machine import resident_bytes
from trainwright.tracking.append_only_file import LineFile, size_up_to, whole_lines
from trainwright.tracking.custom_metrics import OWN, own_texts, own_totals
from trainwright.tracking.events import (
    Ended,
    Event,
    Number,
    Resumed,
    RolledBack,
    Saved,
    Saving,
    StepDropped,
    StepKept,
    number_from_json,
    read_number,
)

SIGNALS = (
    "step",
    "epoch",
    "loss",
    "learning_rate",
    "gradient_norm",
    "nonfinite",
    "clipped",
    "step_seconds",
    "data_seconds",
    "memory_bytes",
    "time",
    "samples",
    "targets",
)
_ADDED = frozenset({"time", "samples", "targets"})
"""What the lines of earlier versions lack."""
_MEMORY_SECONDS = 1.0

ReadScalars = Callable[[Sequence[Number]], list[float]]
"""Reads many scalars in one go, or none: with tensors, `torch.stack(list(scalars)).tolist()`."""


def read_each(numbers: Sequence[Number]) -> list[float]:
    """Read the numbers one by one; those that are here already cost next to nothing."""
    return [number if type(number) is float else read_number(number) for number in numbers]


@final
class SignalRecorder:
    """Writes `signals.jsonl`.

    A kept step costs one append to a list; every `window` steps, and at every other event, the
    scalars are read at once and the lines written in one call. Each step is in the file exactly
    once: a resume or a rollback cuts the lines of the steps that will be executed again.
    """

    def __init__(self, path: Path, window: int, read: ReadScalars = read_each) -> None:
        assert window > 0, "a window holds at least one step"
        self._path = path
        self._window = window
        self._read = read
        self._file = LineFile(path)
        self._kept: list[tuple[StepKept, float]] = []
        self._keep = self._kept.append
        self._memory_bytes = 0
        self._memory_due = 0.0

    @property
    def lost_steps(self) -> int:
        """Steps whose line had to be given up because the disk took nothing for too long."""
        return self._file.lost_lines

    def observe(self, event: Event) -> None:
        """Keep a step; write at the others."""
        if type(event) is StepKept:
            self._keep((event, time.time()))
            if len(self._kept) >= self._window:
                self.flush()
        elif isinstance(event, Resumed | RolledBack | StepDropped):
            # On a device a drop is known late: steps behind it were counted one too high.
            self.flush()
            self._file.cut(size_up_to(self._path, event.progress.step))
        else:
            self.flush(sync=isinstance(event, Saving | Saved | Ended))

    def flush(self, *, sync: bool = False) -> None:
        """Write what is buffered.

        Raises:
            StorageFailed: the lines wait in memory for the next flush.
        """
        steps = list(self._kept)
        self._kept.clear()
        if steps:
            self._file.append(self._lines(steps), sync=sync)

    def _lines(self, kept: Sequence[tuple[StepKept, float]]) -> str:
        steps = [step for step, _ in kept]
        count = len(steps)
        outcomes = [step.outcome for step in steps]
        numbers = self._read(
            [
                *(outcome.loss for outcome in outcomes),
                *(outcome.gradient_norm for outcome in outcomes),
                *(outcome.found_nonfinite for outcome in outcomes),
                *(outcome.clipped for outcome in outcomes),
                *own_totals(outcomes),
            ]
        )
        own = own_texts(outcomes, numbers[4 * count :])
        del numbers[4 * count :]
        rates = [outcome.learning_rate for outcome in outcomes]
        shown: Sequence[float | str] = [*numbers, *rates]
        if not math.isfinite(sum(numbers) + sum(rates)):
            shown = [_show(number) for number in (*numbers, *rates)]
        columns = (
            [step.progress.step for step in steps],
            [step.progress.epoch for step in steps],
            shown[:count],
            shown[4 * count :],
            shown[count : 2 * count],
            shown[2 * count : 3 * count],
            numbers[3 * count :],
            [outcome.step_seconds for outcome in outcomes],
            [outcome.data_seconds for outcome in outcomes],
            [self._memory()] * count,
            [moment for _, moment in kept],
            [step.progress.samples for step in steps],
            [outcome.targets for outcome in outcomes],
            own,
        )
        return _LINE * count % tuple(chain.from_iterable(zip(*columns, strict=True)))

    def _memory(self) -> int:
        """Resident bytes, at most a second old: asking the kernel costs as much as thirty lines."""
        now = time.monotonic()
        if now >= self._memory_due:
            self._memory_due = now + _MEMORY_SECONDS
            self._memory_bytes = resident_bytes()
        return self._memory_bytes


def read_signals(path: Path) -> dict[str, list[float]]:
    """Read `signals.jsonl` as columns, one list of equal length for each of `SIGNALS`; NaN where an
    earlier version has not written one.

    A last line that was torn by a crash is skipped.

    Raises:
        Mistake: another line is not what a recorder writes. StorageFailed: not readable.
    """
    columns: dict[str, list[float]] = {name: [] for name in SIGNALS}
    for row in _rows(path):
        for name in SIGNALS:
            columns[name].append(row.get(name, math.nan))
    return columns


def read_own_signals(path: Path) -> dict[str, dict[int, float]]:
    """Read what a user named beside them: for each name its numbers by step. A step that did not
    name it has none.

    Raises:
        Mistake, StorageFailed: as `read_signals`.
    """
    columns: dict[str, dict[int, float]] = {}
    for row in _rows(path):
        for name in row.keys() - SIGNALS:
            columns.setdefault(name.removeprefix(OWN), {})[int(row["step"])] = row[name]
    return columns


def _rows(path: Path) -> Iterator[dict[str, float]]:
    try:
        lines = whole_lines(path)
    except OSError as error:
        raise StorageFailed(f"reading {path}: {error.strerror or error}") from error
    for number, line in enumerate(lines, start=1):
        try:
            row = {name: number_from_json(value) for name, value in json.loads(line).items()}
        except (ValueError, AttributeError, RecursionError):
            raise _not_a_signal(path, number) from None
        if any(name not in row and name not in _ADDED for name in SIGNALS):
            raise _not_a_signal(path, number)
        yield row


def _not_a_signal(path: Path, line: int) -> Mistake:
    return Mistake(
        Problem(
            "this line does not hold the signals of a step",
            expected="a JSON object with " + ", ".join(SIGNALS),
            fix="remove the line",
            place=Place(str(path), line),
        )
    )


# One format for all lines: json.dumps takes four times as long, and this runs for every step.
_LINE = (
    '{"step": %d, "epoch": %d, "loss": %s, "learning_rate": %s, "gradient_norm": %s, '
    '"nonfinite": %s, "clipped": %.0f, "step_seconds": %.4g, "data_seconds": %.4g, '
    '"memory_bytes": %d, "time": %.3f, "samples": %d, "targets": %d%s}\n'
)


def _show(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"nan"' if math.isnan(value) else ('"inf"' if value > 0 else '"-inf"')
