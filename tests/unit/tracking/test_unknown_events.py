"""An event of a later version reaches observers that do not know it."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trainwright.core.files import Json
from trainwright.core.progress import Progress
from trainwright.tracking.console import ConsoleProgress, PlainScreen
from trainwright.tracking.event_log import EventLog, read_events
from trainwright.tracking.events import Event, Observer
from trainwright.tracking.signals import SignalRecorder


@dataclass(frozen=True, slots=True)
class Rewarmed:
    """No event there is."""

    progress: Progress

    def to_json(self) -> Json:
        return {"event": "rewarmed"}


def _windows(_folder: Path) -> Observer:
    pytest.importorskip("torch")
    from trainwright.engine.signals.telemetry import Windows

    return Windows(2, [])


def _console(_folder: Path) -> Observer:
    return ConsoleProgress(PlainScreen(io.StringIO()), 10, 1.0)


def _signals(folder: Path) -> Observer:
    return SignalRecorder(folder / "signals.jsonl", 5)


@pytest.mark.parametrize("make", [_windows, _console, _signals])
def test_an_unknown_event_is_ignored(make: Callable[[Path], Observer], tmp_path: Path) -> None:
    event: Any = Rewarmed(Progress(step=3))
    make(tmp_path).observe(event)
    assert not list(tmp_path.iterdir())


def test_an_unknown_event_is_recorded(tmp_path: Path) -> None:
    event: Event = Rewarmed(Progress(step=3))  # type: ignore[assignment]
    EventLog(tmp_path / "events.jsonl").observe(event)
    assert [one["event"] for one in read_events(tmp_path / "events.jsonl")] == ["rewarmed"]
