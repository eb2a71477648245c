"""The numbers of every step, the user's own among them: buffered, read from the device late."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import final

from trainwright.core.errors import Mistake, Place, Problem, StorageFailed
from trainwright.core.process import resident_bytes
from trainwright.tracking.event_log import LineFile, size_up_to, whole_lines
from trainwright.tracking.events import (
    Ended,
    Event,
    Number,
    OwnNumbers,
    Resumed,
    RolledBack,
    Saved,
    Saving,
    StepDropped,
    StepKept,
    StepOutcome,
    number_from_json,
    number_to_json,
    read_number,
)

OWN = "own/"
"""Prefix of user-defined signals in `signals.jsonl` and `windows.jsonl`."""

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

# One format for all lines: json.dumps takes four times as long, and this runs for every step.
_LINE = (
    '{"step": %d, "epoch": %d, "loss": %s, "learning_rate": %s, "gradient_norm": %s, '
    '"nonfinite": %s, "clipped": %.0f, "step_seconds": %.4g, "data_seconds": %.4g, '
    '"memory_bytes": %d, "time": %.3f, "samples": %d, "targets": %d%s}\n'
)


def own_totals(outcomes: Sequence[StepOutcome]) -> list[Number]:
    """Totals of the user-defined signals of all steps in order, to be read.

    Raises:
        Mistake: one was modified in place after it was recorded.
    """
    for outcome in outcomes:
        if outcome.own.versions:
            _check(outcome.own)
    return [total for outcome in outcomes for total in outcome.own.totals]


def version_of(tensor: Number) -> int:
    """In-place version counter of a tensor; 0 if it has none."""
    try:
        return int(getattr(tensor, "_version", 0))
    except RuntimeError:  # made in inference mode
        return 0


def own_means(own: OwnNumbers, totals: Sequence[float]) -> dict[str, float]:
    """Mean of each name: its totals over its counts. NaN for a zero count."""
    means = dict(zip(own.names, totals, strict=True))
    if len(means) == len(own.names) and own.counts == (1,) * len(means):
        return means
    sums, counts = dict.fromkeys(means, 0.0), dict.fromkeys(means, 0)
    for name, total, count in zip(own.names, totals, own.counts, strict=True):
        sums[name] += total
        counts[name] += count
    return {name: sums[name] / count if count else math.nan for name, count in counts.items()}


def own_texts(outcomes: Sequence[StepOutcome], totals: Sequence[float]) -> list[str]:
    """Text of each step's user-defined signals for its line in `signals.jsonl`, after a comma; with
    nine digits, the precision of fp32."""
    texts = []
    taken = 0
    for outcome in outcomes:
        behind = taken + len(outcome.own.names)
        means = own_means(outcome.own, totals[taken:behind])
        taken = behind
        text = _template(tuple(means)) % tuple(means.values())
        if not math.isfinite(sum(means.values())):
            text = "".join([_show_own(name, mean) for name, mean in means.items()])
        texts.append(text)
    return texts


@cache
def _template(names: tuple[str, ...]) -> str:
    """Template of a step's signals, which are usually the same at every step."""
    return "".join([f', "{OWN}{name}": %.9g' for name in names])


def _show_own(name: str, mean: float) -> str:
    shown = number_to_json(mean)
    return f', "{OWN}{name}": "{shown}"' if isinstance(shown, str) else _template((name,)) % mean


def _check(own: OwnNumbers) -> None:
    versions = iter(own.versions)
    for name, total in zip(own.names, own.totals, strict=True):
        if not isinstance(total, float | int) and version_of(total) != next(versions):
            raise _changed(name)


def _changed(name: str) -> Mistake:
    return Mistake(
        Problem(
            f"the signal {name} was changed in place after it was named",
            found="a tensor that is another number now than at its step",
            expected="a number of its own",
            fix="pass a copy: tensor.detach().clone()",
        )
    )


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


def _show(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"nan"' if math.isnan(value) else ('"inf"' if value > 0 else '"-inf"')
