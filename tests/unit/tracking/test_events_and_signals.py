"""Events become strict JSON; every step is in the signals exactly once."""

from __future__ import annotations

import errno
import json
import math
import os
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trainwright.core.errors import Mistake, StorageFailed
from trainwright.core.progress import Progress
from trainwright.testing.fakes import FakeClock, FullDiskObserver, RecordingObserver
from trainwright.tracking.event_log import EventLog, read_events
from trainwright.tracking.events import (
    Ended,
    Event,
    Noted,
    Observers,
    RareEvent,
    Resumed,
    RolledBack,
    Saved,
    Saving,
    StepDropped,
    StepKept,
    StepOutcome,
    Validated,
    number_from_json,
)
from trainwright.tracking.signals import SIGNALS, SignalRecorder, read_signals


class OnDevice:
    def __init__(self, value: float) -> None:
        self.value = value

    def item(self) -> float:
        return self.value


def kept(step: int, loss: float = 0.5) -> StepKept:
    outcome = StepOutcome(
        loss=OnDevice(loss),
        learning_rate=1e-3,
        gradient_norm=2.0,
        found_nonfinite=0.0,
        step_seconds=1e-4,
        data_seconds=1e-5,
        rows=8,
        samples=8 * step,
        epoch=0,
    )
    return StepKept(Progress(step, step, 8 * step, 0), outcome)


HERE = Progress(3, 4, 5, 1)
RARE: list[RareEvent] = [
    StepDropped(HERE, "not finite"),
    Validated(HERE, {"val_loss": math.nan, "val_f1": -math.inf}, 1.0, False),
    Saving(HERE),
    Saved(HERE, "step-0000000003", 0.1, 10, math.nan),
    Resumed(HERE, "step-0000000003", ("step-0000000004: torn",)),
    RolledBack(HERE, 9, "loss rose"),
    Ended(HERE, "finished", "all steps"),
    Noted("data", "a note", {"rows": math.inf}),
]


def refuse(name: str) -> float:
    raise AssertionError(name)


@pytest.mark.parametrize("event", RARE, ids=lambda event: type(event).__name__)
def test_rare_events_are_strict_json(event: RareEvent) -> None:
    text = json.dumps(event.to_json(), allow_nan=False)
    assert json.loads(text, parse_constant=refuse)["event"]


def test_numbers_that_are_not_finite_keep_their_name() -> None:
    values = RARE[1].to_json()["values"]
    assert values == {"val_loss": "nan", "val_f1": "-inf"}
    assert number_from_json(values["val_f1"]) == -math.inf
    with pytest.raises(ValueError):
        number_from_json("infinity")


def test_lines_are_written_by_window_with_exact_numbers(tmp_path: Path) -> None:
    path = tmp_path / "signals.jsonl"
    reads: list[int] = []

    def read(numbers):  # type: ignore[no-untyped-def]
        reads.append(len(numbers))
        return [n if isinstance(n, float) else n.item() for n in numbers]

    recorder = SignalRecorder(path, 4, read)
    losses = [1 / 3, math.nan, math.inf, -math.inf, 5e-324]
    for step, loss in enumerate(losses, start=1):
        recorder.observe(kept(step, loss))
        assert path.exists() == (step >= 4)
    assert len(read_signals(path)["loss"]) == 4
    recorder.observe(Ended(HERE, "finished", ""))
    assert reads == [16, 4]
    columns = read_signals(path)
    assert list(columns) == list(SIGNALS)
    assert columns["step"] == [1, 2, 3, 4, 5]
    assert [repr(value) for value in columns["loss"]] == [repr(value) for value in losses]
    assert columns["learning_rate"] == [1e-3] * 5
    assert all(value > 1e6 for value in columns["memory_bytes"])
    for line in path.read_text().splitlines():
        assert list(json.loads(line, parse_constant=refuse)) == list(SIGNALS)


def test_each_step_has_its_time_and_how_much_it_has_read(tmp_path: Path) -> None:
    path = tmp_path / "signals.jsonl"
    recorder = SignalRecorder(path, 3)
    before = time.time()
    for step in range(1, 4):
        event = kept(step, 1.0)
        recorder.observe(event._replace(outcome=event.outcome._replace(targets=100 * step)))
    columns = read_signals(path)
    times = columns["time"]
    assert before - 1e-3 <= times[0] <= times[1] <= times[2] <= time.time() + 1e-3
    assert columns["targets"] == [100, 200, 300]
    assert columns["samples"] == [kept(step, 1.0).progress.samples for step in (1, 2, 3)]


def test_lines_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    path = tmp_path / "signals.jsonl"
    recorder = SignalRecorder(path, 1)
    recorder.observe(kept(1, 0.5))
    line = json.loads(path.read_text())
    for name in ("time", "samples", "targets"):
        del line[name]
    path.write_text(json.dumps(line) + "\n")
    columns = read_signals(path)
    assert columns["loss"] == [0.5]
    assert math.isnan(columns["time"][0])


@pytest.mark.parametrize("back", [Resumed(HERE, "x"), RolledBack(HERE, 7, "loss rose")])
def test_steps_that_are_executed_again_are_there_once(tmp_path: Path, back: Event) -> None:
    path = tmp_path / "signals.jsonl"
    recorder = SignalRecorder(path, 2)
    for step in range(1, 8):
        recorder.observe(kept(step, 1.0))
    recorder.observe(back)
    for step in range(4, 9):
        recorder.observe(kept(step, 2.0))
    recorder.observe(Saving(HERE))
    columns = read_signals(path)
    assert columns["step"] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert columns["loss"] == [1.0] * 3 + [2.0] * 5


def test_a_torn_last_line(tmp_path: Path) -> None:
    path = tmp_path / "signals.jsonl"
    recorder = SignalRecorder(path, 1)
    for step in (1, 2, 3):
        recorder.observe(kept(step))
    path.write_bytes(path.read_bytes()[:-5])
    assert read_signals(path)["step"] == [1, 2]
    again = SignalRecorder(path, 1)
    again.observe(Resumed(Progress(2), "x"))
    again.observe(kept(3))
    assert read_signals(path)["step"] == [1, 2, 3]


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "signals.jsonl"
    path.write_text('{"step": 1}\n')
    with pytest.raises(Mistake, match=r"signals\.jsonl:1"):
        read_signals(path)


@pytest.mark.row("F-17")
def test_a_full_disk_keeps_lines_waiting_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "signals.jsonl"
    recorder = SignalRecorder(path, 1)
    recorder.observe(kept(1))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, before[1]))
    try:
        for step in (2, 3):
            with pytest.raises(StorageFailed, match="File too large"):
                recorder.observe(kept(step))
        assert read_signals(path)["step"] == [1]
        assert path.read_bytes().endswith(b"\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    recorder.observe(kept(4))
    assert read_signals(path)["step"] == [1, 2, 3, 4]
    assert recorder.lost_steps == 0


@pytest.mark.row("F-26")
def test_the_log_numbers_and_dates_events_over_restarts(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    clock = FakeClock()
    log = EventLog(path, clock)
    log.observe(kept(1))
    log.observe(Saving(HERE))
    assert not path.exists()
    log.observe(RARE[0])
    log.observe(RARE[1])
    with path.open("ab") as stream:
        stream.write(b'{"sequence": 3, "to')
    clock.set_date(datetime(2020, 1, 1, tzinfo=UTC))
    EventLog(path, clock).observe(RARE[6])
    events = read_events(path)
    assert [event["sequence"] for event in events] == [1, 2, 3]
    assert [event["event"] for event in events] == ["step_dropped", "validated", "ended"]
    assert events[0]["time"] == "2026-01-01T00:00:00.000Z"
    assert events[2]["time"] == "2020-01-01T00:00:00.000Z"


@pytest.mark.row("F-17")
def test_an_observer_that_cannot_record_does_not_stop_the_run() -> None:
    said: list[str] = []
    broken, sound = FullDiskObserver(), RecordingObserver()
    observers = Observers([broken, sound], said.append)
    for step in range(5):
        observers.observe(kept(step))
    assert len(sound.events) == 5
    assert (broken.asked, observers.failures, len(said)) == (5, 5, 1)
    assert "FullDiskObserver" in said[0]
    assert os.strerror(errno.ENOSPC) in said[0]


def test_a_mistake_in_an_observer_passes_through() -> None:
    class Wrong:
        def observe(self, event: Event) -> None:
            raise KeyError("x")

    with pytest.raises(KeyError):
        Observers([Wrong()], lambda _: None).observe(kept(1))


def test_tracking_imports_no_torch_and_no_rich() -> None:
    modules = "console environment event_log events lock record run_folder signals"
    code = "import sys\n" + "".join(
        f"import trainwright.tracking.{name}\n" for name in modules.split()
    )
    code += "assert not {'torch', 'numpy', 'polars', 'rich'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
