"""Progress on a terminal and in a log."""

from __future__ import annotations

import io
import re

from trainwright.core.progress import Progress
from trainwright.testing.fakes import FakeClock
from trainwright.tracking.console import (
    ConsoleProgress,
    CountProgress,
    LiveScreen,
    PlainScreen,
    build_console,
)
from trainwright.tracking.events import (
    Ended,
    Noted,
    Resumed,
    RolledBack,
    StepDropped,
    StepKept,
    StepOutcome,
    Validated,
)


class Loss:
    def __init__(self) -> None:
        self.reads = 0

    def item(self) -> float:
        self.reads += 1
        return 0.25


def kept(step: int, loss: Loss) -> StepKept:
    outcome = StepOutcome(loss, 1e-3, 1.0, 0.0, 0.1, 0.0, 10, 10 * step, 0)
    return StepKept(Progress(step, step, 10 * step, 0), outcome)


def run(console: ConsoleProgress, clock: FakeClock, loss: Loss, steps: int, each: float) -> None:
    for step in range(1, steps + 1):
        clock.pass_seconds(each)
        console.observe(kept(step, loss))


def test_plain_lines_are_few_and_say_what_matters() -> None:
    stream, clock, loss = io.StringIO(), FakeClock(), Loss()
    console = ConsoleProgress(PlainScreen(stream), 400, 10.0, clock)
    run(console, clock, loss, 400, 0.1)
    lines = stream.getvalue().splitlines()
    assert 2 <= len(lines) <= 4
    assert loss.reads == len(lines)
    assert "/400 · loss 0.2500 · 100 rows/s" in lines[0]
    assert lines[0].endswith("left")


def test_a_training_of_unknown_length_shows_its_step_alone() -> None:
    stream, clock = io.StringIO(), FakeClock()
    run(ConsoleProgress(PlainScreen(stream), 0, 10.0, clock), clock, Loss(), 400, 0.1)
    lines = stream.getvalue().splitlines()
    assert lines
    assert all(re.match(r"step \d+ · loss", line) for line in lines)
    assert "left" not in stream.getvalue()


def test_one_slow_interval_does_not_change_the_remaining_time_much() -> None:
    stream, clock, loss = io.StringIO(), FakeClock(), Loss()
    console = ConsoleProgress(PlainScreen(stream), 1000, 10.0, clock)
    for step in range(1, 601):
        clock.pass_seconds(35.0 if step == 300 else 0.1)
        console.observe(kept(step, loss))
    seconds = seconds_left(stream.getvalue().splitlines())
    assert len(seconds) >= 5
    # It may come again: right after it the remaining time is at most that of the mean.
    assert all(30 <= one <= 700 * 65 / 300 for one in seconds), seconds


class Drawn:
    """A screen that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def draw(self, step: int, line: str) -> None:
        self.lines.append(line)

    def say(self, line: str) -> None:
        pass

    def close(self) -> None:
        pass


def test_validations_count_in_the_remaining_time_as_often_as_they_come() -> None:
    screen, clock, loss = Drawn(), FakeClock(), Loss()
    console = ConsoleProgress(screen, 10_000, 0.25, clock)
    for step in range(1, 1001):
        clock.pass_seconds(60.2 if step % 100 == 0 else 0.2)
        console.observe(kept(step, loss))
    found = {step_of(line): left for line, left in zip(screen.lines, left_of(screen), strict=True)}
    pace = 0.2 + 60 / 100
    for step, seconds in found.items():
        if step >= 100:
            # At most one validation too many or too few is in the mean.
            within = (10_000 - step) * (60 / step) + 60
            assert abs(seconds - (10_000 - step) * pace) <= within, (step, seconds)


def test_a_first_step_that_compiles_tells_nothing_of_the_others() -> None:
    screen, clock, loss = Drawn(), FakeClock(), Loss()
    console = ConsoleProgress(screen, 10_000, 10.0, clock)
    clock.pass_seconds(60.0)
    console.observe(kept(1, loss))
    assert "left" not in screen.lines[0]
    for step in range(2, 3001):
        clock.pass_seconds(0.1)
        console.observe(kept(step, loss))
    assert len(screen.lines) > 20
    del screen.lines[0]
    for line, seconds in zip(screen.lines, left_of(screen), strict=True):
        assert abs(seconds - (10_000 - step_of(line)) * 0.1) <= 30, line


def test_a_rollback_spoils_neither_rate_nor_remaining_time() -> None:
    screen, clock, loss = Drawn(), FakeClock(), Loss()
    console = ConsoleProgress(screen, 2000, 10.0, clock)
    run(console, clock, loss, 1050, 0.1)
    console.observe(RolledBack(Progress(500), 1050, "a spike"))
    for step in range(501, 1501):
        clock.pass_seconds(0.1)
        console.observe(kept(step, loss))
    assert all("100 rows/s" in line for line in screen.lines), screen.lines
    for line, seconds in zip(screen.lines, left_of(screen), strict=True):
        assert abs(seconds - (2000 - step_of(line)) * 0.1) <= 2, line


def seconds_left(lines: list[str]) -> list[int]:
    left = [line.rpartition(" · ")[2] for line in lines]
    return [sum(int(n) * f for n, f in _units(text)) for text in left]


def left_of(screen: Drawn) -> list[int]:
    return seconds_left(screen.lines)


def step_of(line: str) -> int:
    return int(line.split("/")[0].removeprefix("step ").replace(",", ""))


def _units(text: str) -> list[tuple[str, int]]:
    return [(n, {"h": 3600, "m": 60, "s": 1}[u]) for n, u in re.findall(r"(\d+)([hms])", text)]


def test_slow_steps_are_shown_each() -> None:
    stream, clock, loss = io.StringIO(), FakeClock(), Loss()
    run(ConsoleProgress(PlainScreen(stream), 5, 10.0, clock), clock, loss, 5, 30.0)
    assert len(stream.getvalue().splitlines()) == 5


def test_rare_events_are_told() -> None:
    stream = io.StringIO()
    console = build_console(stream, 10)
    here = Progress(4, 4, 40, 2)
    console.observe(Resumed(here, "step-0000000004", ("step-0000000005: torn",)))
    console.observe(Validated(here, {"val_loss": 0.5}, 1.0, True))
    console.observe(Noted("x", "a note"))
    console.observe(Ended(here, "finished", "all 4 steps"))
    assert stream.getvalue().splitlines() == [
        "resumed   at step 4, from step-0000000004",
        "rejected  step-0000000005: torn",
        "note      a note",
        "validated val_loss 0.5000 · best at step 4",
    ]


def test_many_validations_do_not_fill_the_page() -> None:
    stream, clock, loss = io.StringIO(), FakeClock(), Loss()
    console = ConsoleProgress(PlainScreen(stream), 400, 10.0, clock)
    for epoch in range(40):
        run(console, clock, loss, 10, 0.1)
        console.observe(Validated(Progress(10 * epoch), {"val_f1": 0.5}, 0.1, False))
    lines = stream.getvalue().splitlines()
    assert 2 <= len(lines) <= 4
    assert all("val_f1 0.5000" in line for line in lines)


def test_the_live_line_leaves_no_trace() -> None:
    stream, clock, loss = io.StringIO(), FakeClock(), Loss()
    console = ConsoleProgress(LiveScreen(stream, 100), 100, 0.25, clock)
    run(console, clock, loss, 100, 0.1)
    assert "loss 0.2500" in stream.getvalue()
    console.observe(Noted("x", "[bold]not markup"))
    console.observe(Ended(Progress(100), "finished", "all 100 steps"))
    console.close()
    assert "[bold]not markup" in stream.getvalue()
    shown = stream.getvalue()
    assert "step " not in shown[shown.rindex("\x1b[2K") :]


def test_trees_are_counted_a_line_an_interval() -> None:
    clock = FakeClock()
    stream = io.StringIO()
    progress = CountProgress(PlainScreen(stream), 2000, 10.0, clock)
    for trees in range(1, 31):
        clock.pass_seconds(1.0)
        progress.count(trees, "tree", 0.5)
    assert stream.getvalue().splitlines() == [
        f"tree {trees} of at most 2,000 · validation 0.5000" for trees in (10, 20, 30)
    ]


def test_steps_that_are_dropped_in_a_row_take_few_lines() -> None:
    stream = io.StringIO()
    console = ConsoleProgress(PlainScreen(stream), 400, 10.0, FakeClock())
    for step in range(25):
        console.observe(StepDropped(Progress(7, 7 + step, 0, 0), f"loss {step}"))
    console.observe(kept(8, Loss()))
    lines = stream.getvalue().splitlines()
    assert lines[:3] == [f"dropped   step 7: loss {step}" for step in range(3)]
    assert lines[3:] == ["dropped   22 more in a row: events.jsonl names their rows"]
