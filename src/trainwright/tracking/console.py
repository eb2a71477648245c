"""Console progress on stderr: one live line, or a few plain ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TextIO, final

from trainwright.core.formatting import show_count, show_number, show_safely, show_seconds
from trainwright.tracking.clock import Clock, SystemClock
from trainwright.tracking.events import (
    Ended,
    Event,
    Noted,
    RareEvent,
    Resumed,
    RolledBack,
    SaveMissed,
    StepDropped,
    StepKept,
    Validated,
    read_number,
)

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

_PLAIN_SECONDS = 10.0
_LIVE_SECONDS = 0.25
_LOOKS_PER_SHOW = 5
_MOST_DROPPED = 3

LABEL_WIDTH = 10
"""Width of the label before the text of a permanent line."""


def _nowhere(line: str) -> None:
    """Keep no log."""


class ProgressScreen(Protocol):
    """Where progress is displayed."""

    def draw(self, step: int, line: str) -> None:
        """Show the progress."""
        ...

    def say(self, line: str) -> None:
        """Write a permanent line."""
        ...

    def close(self) -> None:
        """Restore the terminal."""
        ...


@final
class PlainScreen:
    """Lines of text, for a log or a pipe."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def draw(self, step: int, line: str) -> None:  # noqa: ARG002
        """Write the progress as a line; it includes the step."""
        self.say(line)

    def say(self, line: str) -> None:
        """Write a line."""
        self._stream.write(show_safely(line) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Nothing to restore."""


@final
class LiveScreen:
    """One line with a bar, redrawn in place."""

    def __init__(self, stream: TextIO, total_steps: int) -> None:
        from rich.console import Console as Terminal
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        # No refresh thread: it would take the GIL from the loop ten times a second.
        self._bar: Bar = Bar(
            BarColumn(bar_width=24),
            TextColumn("{task.description}", markup=False),
            console=Terminal(file=stream, force_terminal=True),
            auto_refresh=False,
            transient=True,
        )
        self._task: TaskID = self._bar.add_task("", total=total_steps or None)
        self._bar.start()

    def draw(self, step: int, line: str) -> None:
        """Redraw the bar."""
        self._bar.update(self._task, completed=step, description=line, refresh=True)

    def say(self, line: str) -> None:
        """Write a line above the bar."""
        self._bar.console.print(show_safely(line), markup=False, highlight=False)

    def close(self) -> None:
        """Remove the bar."""
        self._bar.stop()


@final
class ConsoleProgress:
    """Progress of the training. A step costs a counter; the clock is read only every few steps.

    The loss is read from the device when a line is drawn, at most four times a second. A validation
    is part of the next line, so that many epochs still fit one page. The remaining time is
    estimated from the mean over all steps since the first one, which often compiles: time between
    steps is averaged over them. Steps undone by a rollback count as made. If no rule sets the
    length of the training (0 steps), only the step is shown.
    """

    def __init__(
        self,
        screen: ProgressScreen,
        total_steps: int,
        interval_seconds: float,
        clock: Clock | None = None,
    ) -> None:
        self._screen = screen
        self._total = total_steps
        self._interval = interval_seconds
        self._clock: Clock = SystemClock() if clock is None else clock
        self._seen = 0
        self._stride = 1
        self._next_look = 1
        # The first line waits for a full interval, so that its rate is meaningful.
        self._drawn_at = self._clock.monotonic_seconds()
        self._looked_at = self._drawn_at
        self._drawn_seen = 0
        self._begun_at = self._drawn_at
        self._score = ""
        self._validated = ""
        self._best_step = 0
        self._dropped = 0
        self._log: Callable[[str], None] = _nowhere

    def log_to(self, log: Callable[[str], None]) -> None:
        """Give permanent lines to `log` as well."""
        self._log = log

    def observe(self, event: Event) -> None:
        """Display an event if it is worth it."""
        if type(event) is StepKept:
            if self._dropped:
                self._say_dropped()
            self._seen += 1
            if self._seen >= self._next_look:
                self._look(event)
        elif not isinstance(event, StepKept):
            self._tell(event)

    def close(self) -> None:
        """Restore the terminal; `Ended` does it too."""
        self._screen.close()

    def _look(self, event: StepKept) -> None:
        now = self._clock.monotonic_seconds()
        if now - self._looked_at < self._interval / _LOOKS_PER_SHOW:
            self._stride = min(self._stride * 2, 4096)
        else:
            self._stride = max(1, self._stride // 2)
        self._looked_at = now
        self._next_look = self._seen + self._stride
        if self._seen == 1:
            self._begun_at = now
        if now - self._drawn_at >= self._interval:
            self._draw(event, now)
            self._drawn_at, self._drawn_seen = now, self._seen

    def _draw(self, event: StepKept, now: float) -> None:
        step = event.progress.step
        rate = (self._seen - self._drawn_seen) / (now - self._drawn_at)
        parts = [
            f"step {step:,}/{self._total:,}" if self._total else f"step {step:,}",
            f"loss {show_number(read_number(event.outcome.loss))}",
            *([self._score] if self._score else []),
            f"{show_count(rate * event.outcome.rows)} rows/s",
        ]
        if self._seen > 1 and self._total > step:
            pace = (now - self._begun_at) / (self._seen - 1)
            parts.append(f"{show_seconds((self._total - step) * pace)} left")
        self._screen.draw(step, " · ".join(parts))

    def _say_dropped(self) -> None:
        """Report how many more consecutive steps were dropped than were shown."""
        if self._dropped > _MOST_DROPPED:
            more = self._dropped - _MOST_DROPPED
            self._say("dropped", f"{more:,} more in a row: events.jsonl names their rows")
        self._dropped = 0

    def _say(self, label: str, text: str) -> None:
        line = f"{label:<{LABEL_WIDTH}}{text}"
        self._screen.say(line)
        self._log(line)

    def _tell(self, event: RareEvent) -> None:
        match event:
            case Validated():
                # Slices are in the log and the report: here they would fill the line.
                shown = {name: v for name, v in event.values.items() if "/" not in name}
                values = [f"{name} {show_number(v)}" for name, v in shown.items()]
                self._score = values[-1] if values else ""
                if event.improved:
                    self._best_step = event.progress.step
                best = f"best at step {self._best_step:,}"
                self._validated = " · ".join([*values, *([best] if self._best_step else [])])
            case Resumed():
                self._say("resumed", f"at step {event.progress.step:,}, from {event.checkpoint}")
                for rejected in event.rejected:
                    self._say("rejected", rejected)
            case RolledBack():
                steps = f"from step {event.from_step:,} to {event.progress.step:,}"
                self._say("rollback", f"{steps}: {event.why}")
            case StepDropped():
                self._dropped += 1
                if self._dropped <= _MOST_DROPPED:
                    self._say("dropped", f"step {event.progress.step:,}: {event.why}")
            case Noted():
                self._say("note", event.message)
            case Ended():
                self._screen.close()
                self._say_dropped()
                if self._validated:
                    self._say("validated", self._validated)
            case SaveMissed():
                where = f"step {event.progress.step:,} is not saved"
                self._say("storage", f"{where} ({event.missed} missed so far): {event.why}")
            case _:
                pass


@final
class CountProgress:
    """Shows a count out of at most `total`, one line per interval."""

    def __init__(
        self,
        screen: ProgressScreen,
        total: int,
        interval_seconds: float,
        clock: Clock | None = None,
    ) -> None:
        self._screen = screen
        self._total = total
        self._interval = interval_seconds
        self._clock: Clock = SystemClock() if clock is None else clock
        self._drawn_at = self._clock.monotonic_seconds()

    def count(self, made: int, unit: str, value: float) -> None:
        """Update to `made`, with the latest validation value."""
        now = self._clock.monotonic_seconds()
        if now - self._drawn_at >= self._interval:
            self._drawn_at = now
            line = f"{unit} {made:,} of at most {self._total:,} · validation {show_number(value)}"
            self._screen.draw(made, line)

    def close(self) -> None:
        """Restore the terminal."""
        self._screen.close()


def build_count(
    stream: TextIO, total: int, build_live: Callable[[TextIO, int], ProgressScreen] = LiveScreen
) -> CountProgress:
    """Live on a terminal, plain lines at most every ten seconds elsewhere."""
    if stream.isatty():
        return CountProgress(build_live(stream, total), total, _LIVE_SECONDS)
    return CountProgress(PlainScreen(stream), total, _PLAIN_SECONDS)


def build_console(
    stream: TextIO,
    total_steps: int,
    build_live: Callable[[TextIO, int], ProgressScreen] = LiveScreen,
) -> ConsoleProgress:
    """Live on a terminal, plain lines at most every ten seconds elsewhere."""
    if stream.isatty():
        return ConsoleProgress(build_live(stream, total_steps), total_steps, _LIVE_SECONDS)
    return ConsoleProgress(PlainScreen(stream), total_steps, _PLAIN_SECONDS)
