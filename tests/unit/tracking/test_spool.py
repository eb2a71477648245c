"""What a sink reads of a run that is at work: each line once, whatever is cut meanwhile."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracked_runs import RecordedRun, begin_run, signals_of
from trainwright.core.errors import StorageFailed
from trainwright.tracking.event_log import read_events
from trainwright.tracking.sinks.cursor import Cursor
from trainwright.tracking.sinks.spool import Point, Spool
from trainwright.tracking.telemetry_file import read_windows


class Tracker:
    """Keeps every point that it is sent, as MLflow does."""

    def __init__(self, run: RecordedRun) -> None:
        self.run = run
        self.points: list[Point] = []
        self.cursor = Cursor()
        self.begin()

    def begin(self) -> None:
        self.spool = Spool(self.run.folder, self.cursor)

    def poll(self) -> None:
        while True:
            batch = self.spool.read(self.cursor)
            self.points += batch.points
            moved, self.cursor = batch.cursor != self.cursor, batch.cursor
            if not moved:
                return

    def newest(self, name: str) -> dict[int, float]:
        """By step; without those that the run has gone back behind and not made again."""
        points = [point for point in self.points if point.step <= self.run.step]
        return {point.step: point.value for point in points if point.name == name}


ACTIONS = st.sampled_from(
    ["train", "train", "train", "poll", "poll", "back", "kill", "restart", "validate", "save"]
)


@given(st.lists(st.tuples(ACTIONS, st.integers(1, 23)), max_size=40))
def test_a_tracker_ends_with_the_folder(actions: Sequence[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = begin_run(Path(folder))
        tracker = Tracker(run)
        for action, size in actions:
            match action:
                case "train":
                    run.train(size)
                case "poll":
                    tracker.poll()
                case "back":
                    run.roll_back(max(0, run.step - size))
                case "kill":
                    run.save()
                    run.resume(max(0, run.step - size))
                case "restart":
                    tracker.begin()
                case "validate":
                    run.validate()
                case "save":
                    run.save()
        run.save()
        tracker.poll()
        assert tracker.newest("loss") == signals_of(run)
        windows = {
            line.step: line.numbers["weight_norm/body.0"]
            for line in read_windows(run.folder.windows)
        }
        assert tracker.newest("weight_norm/body.0") == windows
        validated = {
            event["step"]: event["values"]["val_loss"]
            for event in read_events(run.folder.events)
            if event["event"] == "validated" and event["step"] <= run.step
        }
        assert tracker.newest("val_loss") == validated
        if not {"back", "kill"} & {action for action, _ in actions}:
            assert len(tracker.points) == len(set(tracker.points))
            assert "rewound" not in tracker.cursor.tags


def test_after_a_resume_nothing_is_sent_again(tmp_path: Path) -> None:
    run = begin_run(tmp_path)
    tracker = Tracker(run)
    run.train(30)
    run.validate()
    run.save()
    tracker.poll()
    sent = len(tracker.points)
    run.resume(10)
    run.train(20)
    run.validate()
    run.save()
    tracker.begin()
    tracker.poll()
    assert len(tracker.points) == sent
    run.train(5)
    run.save()
    tracker.poll()
    assert {point.step for point in tracker.points[sent:]} == set(range(31, 36))
    assert "rewound" not in tracker.cursor.tags


def test_after_a_rollback_the_steps_are_sent_again(tmp_path: Path) -> None:
    run = begin_run(tmp_path)
    tracker = Tracker(run)
    run.train(30)
    run.save()
    tracker.poll()
    sent = len(tracker.points)
    run.roll_back(12)
    run.train(20)
    run.save()
    tracker.poll()
    again = [point.step for point in tracker.points[sent:] if point.name == "loss"]
    assert again == list(range(13, 33))
    assert tracker.cursor.tags == {"rewound": "12"}
    assert tracker.newest("loss") == signals_of(run)


def test_a_rollback_that_nobody_has_seen_is_no_rewind(tmp_path: Path) -> None:
    run = begin_run(tmp_path)
    run.train(30)
    run.roll_back(12)
    run.train(20)
    run.save()
    tracker = Tracker(run)
    tracker.poll()
    assert [p.step for p in tracker.points if p.name == "loss"] == list(range(1, 33))
    assert tracker.cursor.tags == {}


def test_points_have_the_time_of_their_line(tmp_path: Path) -> None:
    run = begin_run(tmp_path)
    run.train(10)
    run.save()
    first, second = Tracker(run), Tracker(run)
    first.poll()
    second.poll()
    assert first.points == second.points
    assert all(point.milliseconds > 1_700_000_000_000 for point in first.points)


def test_a_torn_line_waits_for_its_end(tmp_path: Path) -> None:
    run = begin_run(tmp_path)
    run.train(10)
    run.save()
    whole = run.folder.signals.read_bytes()
    run.folder.signals.write_bytes(whole[:-20])
    tracker = Tracker(run)
    tracker.poll()
    assert max(tracker.newest("loss")) == 9
    run.folder.signals.write_bytes(whole)
    tracker.poll()
    assert tracker.newest("loss") == signals_of(run)


def test_a_cursor_is_kept_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "sinks" / "mlflow.json"
    cursor = Cursor("http://here", "abc", signals=7, tags={"rewound": "3"})
    cursor.write(path)
    assert Cursor.read(path) == cursor
    path.write_text('{"signals": "many"}')
    with pytest.raises(StorageFailed, match=r"mlflow\.json is not the cursor of a sink"):
        Cursor.read(path)
