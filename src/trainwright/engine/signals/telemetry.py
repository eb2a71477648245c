"""Telemetry: measurements per window of steps, read from the device together and checked by
watches."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Literal, NamedTuple, Protocol, final

from trainwright.checkpoint.state import Snapshot
from trainwright.core.files import Json
from trainwright.core.progress import Progress
from trainwright.tracking.events import (
    NO_OWN,
    Ended,
    Event,
    Noted,
    Number,
    OwnNumbers,
    RareEvent,
    Resumed,
    RolledBack,
    SaveBegun,
    Saved,
    SaveMissed,
    Saving,
    StepDropped,
    StepKept,
    Validated,
)
from trainwright.tracking.signals import ReadScalars, own_totals, read_each
from trainwright.tracking.telemetry_file import NoLines, WindowLine, WindowLines


class StepNumbers(NamedTuple):
    """Numbers of a step: mean loss, gradient norm before clipping, learning rate, user-defined
    signals, number of targets and of their positions."""

    step: int
    loss: float
    gradient_norm: float
    learning_rate: float
    own: OwnNumbers = NO_OWN
    targets: int = 0
    places: int = 0


@final
@dataclass(frozen=True, slots=True)
class Window:
    """Completed window of applied steps, with its numbers read.

    `seconds` is the wall time in which this process computed `rows` and `targets` of it: of the
    whole window, unless the process started or rolled back within it.
    """

    progress: Progress
    seconds: float
    rows: int
    targets: int
    steps: Sequence[StepNumbers]


class Gauge(Protocol):
    """Named numbers of a window, for example the norm of the weights.

    A number may still be on the device: those of all gauges are read in one transfer. A gauge must
    change neither the training nor the RNG.
    """

    def read(self, window: Window) -> Mapping[str, Number]:
        """Numbers by name, `<what>` or `<what>/<where>`; called once, at the end of the window."""
        ...


class Trouble(NamedTuple):
    """Finding of a watch: a keyword, a sentence, and its numbers."""

    kind: str
    message: str
    numbers: Mapping[str, float]


class Watch(Protocol):
    """Checks windows for problems; it cannot steer.

    Its findings depend only on the windows it has seen. A problem is reported once, and again only
    after it has been clear for a while.
    """

    @property
    def name(self) -> str:
        """Key of its state; unique within a run."""
        ...

    def look(self, window: Window, numbers: Mapping[str, float]) -> Sequence[Trouble]:
        """Add a window with the numbers of all gauges; the new findings."""
        ...

    def rearm(self) -> None:
        """The run was rolled back: forget recent history, keep what was reported."""
        ...

    def snapshot(self) -> Snapshot:
        """State: history and reported problems."""
        ...

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state."""
        ...


def _forget(noted: Noted) -> None:
    """Discards findings: for callers that want only the lines."""


@final
class Windows:
    """Observer that closes a window every `steps` steps.

    An applied step costs one append and a count. When a window closes, the losses and gradient
    norms of its steps and the numbers of all gauges are read from the device, the watches check
    them, findings are sent as `Noted`, and one line is written. The state is the steps not yet
    processed, and that of the watches.

    Args:
        steps: applied steps per window.
        gauges: numbers of a window.
        watches: check each window.
        lines: receives a line per window.
        tell: receives the findings of the watches.
        told: findings reported earlier in this run, as (kind, attempted step): a process that died
            after its last checkpoint had reported what is found again.
        read: reads many numbers from the device at once.
    """

    on_rollback: ClassVar[Literal["keep"]] = "keep"

    def __init__(
        self,
        steps: int,
        gauges: Sequence[Gauge],
        watches: Sequence[Watch] = (),
        *,
        lines: WindowLines | None = None,
        tell: Callable[[Noted], object] = _forget,
        told: Collection[tuple[str, int]] = (),
        read: ReadScalars = read_each,
    ) -> None:
        assert steps > 0, "a window has at least one step"
        self._steps = steps
        self._gauges = tuple(gauges)
        self._watches = tuple(watches)
        self._lines: WindowLines = NoLines() if lines is None else lines
        self._tell = tell
        self._told = frozenset(told)
        self._read = read
        self._earlier: list[StepNumbers] = []
        self._kept: list[StepKept] = []
        self._opened_at, self._paused, self._paused_at = math.nan, 0.0, 0.0
        self._is_first = True
        self._closed_at = 0
        self._align(0)

    def observe(self, event: Event) -> None:
        """Add a step, and close the window after its last one."""
        if type(event) is StepKept:
            if not self._kept:
                self._open(event)
            self._kept.append(event)
            self._left -= 1
            if self._left <= 1:
                self.closes_next = True
                if not self._left:
                    self._align(event.progress.step)
                    self._close(event.progress)
        elif not isinstance(event, StepKept):
            self._take(event)

    def snapshot(self) -> Snapshot:
        """Steps since the last window, and the state of the watches; waits for numbers that are
        still on the device."""
        return Snapshot(
            values={
                "steps": [list(one) for one in (*self._earlier, *self._numbers())],
                "watches": {watch.name: watch.snapshot().values for watch in self._watches},
            }
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state."""
        values = snapshot.values
        self._kept.clear()
        self._earlier = [
            StepNumbers(
                int(step), float(loss), float(norm), float(rate), _own(own), *map(int, sizes)
            )
            for step, loss, norm, rate, own, *sizes in values["steps"]
        ]
        for watch in self._watches:
            watch.restore(Snapshot(values=values["watches"][watch.name]))

    def _take(self, event: RareEvent) -> None:
        match event:
            case StepDropped():
                # Its time belongs to the window, although it yields no rows.
                self._go_back(event.progress.step)
            case Resumed():
                self._rewind(event.progress.step)
                self._lines.cut(event.progress.step)
            case RolledBack():
                self._roll_back(event.progress.step)
                self._lines.cut(event.progress.step)
            case Validated(seconds=seconds):
                self._paused += seconds
            case Saving():
                # What a rollback saves must be the state of the rolled-back run.
                self._roll_back(event.progress.step)
                self._paused_at = time.perf_counter()
                self._lines.sync()
            case SaveBegun() | Saved() | SaveMissed():
                # A background write does not pause the training.
                if not math.isnan(self._paused_at):
                    self._paused += time.perf_counter() - self._paused_at
                self._paused_at = math.nan
            case Ended():
                self._lines.sync()
            case _:
                pass

    def _roll_back(self, step: int) -> None:
        """Roll back to a step, unless the run is already there."""
        if step < self._newest_step():
            self._rewind(step)
            for watch in self._watches:
                watch.rearm()

    def _newest_step(self) -> int:
        """Newest applied step seen."""
        return self._kept[-1].progress.step if self._kept else self._closed_at

    def _rewind(self, step: int) -> None:
        self._earlier += self._numbers()
        self._kept.clear()
        self._opened_at = math.nan
        self._closed_at = step
        self._forget_after(step)

    def _go_back(self, step: int) -> None:
        """Discard the steps after this one, which will be repeated."""
        self._closed_at = min(self._closed_at, step)
        self._forget_after(step)
        self._lines.cut(step)

    def _forget_after(self, step: int) -> None:
        self._kept[:] = [kept for kept in self._kept if kept.progress.step <= step]
        self._earlier = [one for one in self._earlier if one.step <= step]
        self._align(step)

    def _align(self, step: int) -> None:
        self.number = step // self._steps + 1
        """Index of the open window of the run, from 1."""
        self._left = self._steps - step % self._steps
        self.closes_next = self._left == 1
        """Is the next applied step the last of its window, the measured one?"""

    def _open(self, first: StepKept) -> None:
        if math.isnan(self._opened_at):
            spent = first.outcome.step_seconds + first.outcome.data_seconds
            self._opened_at, self._paused = time.perf_counter() - spent, 0.0

    def _close(self, progress: Progress) -> None:
        """Read, check, report and write."""
        self._closed_at = progress.step
        steps = (*self._earlier, *self._numbers())
        now = time.perf_counter()
        window = Window(
            progress,
            now - self._opened_at - self._paused,
            sum(kept.outcome.rows for kept in self._kept),
            sum(kept.outcome.targets for kept in self._kept),
            steps,
        )
        self._earlier.clear()
        self._kept.clear()
        named: dict[str, Number] = {}
        for gauge in self._gauges:
            named.update(gauge.read(window))
        numbers = dict(zip(named, self._read(list(named.values())), strict=True))
        # Setup by a gauge at its first reading does not count towards the next window.
        self._opened_at, self._paused = time.perf_counter() if self._is_first else now, 0.0
        self._is_first = False
        for watch in self._watches:
            for trouble in watch.look(window, numbers):
                self._say(trouble, progress)
        line = WindowLine(progress.step, progress.epoch, len(steps), window.seconds, numbers)
        self._lines.append(line)

    def _say(self, trouble: Trouble, progress: Progress) -> None:
        if (trouble.kind, progress.attempted) not in self._told:
            at = {"step": progress.step, "attempted": progress.attempted}
            self._tell(Noted(trouble.kind, trouble.message, {**at, **trouble.numbers}))

    def _numbers(self) -> list[StepNumbers]:
        """Numbers of the steps kept by this process."""
        count = len(self._kept)
        outcomes = [kept.outcome for kept in self._kept]
        numbers = self._read(
            [
                *(seen.loss for seen in outcomes),
                *(seen.gradient_norm for seen in outcomes),
                *own_totals(outcomes),
            ]
        )
        totals = iter(numbers[2 * count :])
        return [
            StepNumbers(
                kept.progress.step,
                loss,
                norm,
                kept.outcome.learning_rate,
                kept.outcome.own._replace(
                    totals=tuple(islice(totals, len(kept.outcome.own.names))), versions=()
                ),
                kept.outcome.targets,
                kept.outcome.places,
            )
            for kept, loss, norm in zip(
                self._kept, numbers[:count], numbers[count : 2 * count], strict=True
            )
        ]


def _own(saved: Json) -> OwnNumbers:
    """Restore the user-defined signals of a step from a checkpoint."""
    names, totals, counts, _ = saved
    return OwnNumbers(tuple(names), tuple(map(float, totals)), tuple(counts))
