"""Seconds of trainings over several attempts, also of those that were killed."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from deadlines import within
from run_folders import facts
from trainwright.core.errors import StorageFailed
from trainwright.testing.fakes import FakeClock
from trainwright.tracking.clock import Spent, beating
from trainwright.tracking.record import Ending, RunRecord


def test_each_training_counts_for_itself_and_goes_on_where_it_was() -> None:
    clock = FakeClock()
    spent = Spent({"one": 5.0}, clock)
    with spent.training("one"):
        clock.pass_seconds(2)
        assert spent.used("one") == 7.0
        with spent.training("one-fold-01"):
            clock.pass_seconds(1)
    clock.pass_seconds(10)
    assert spent.to_json() == {"one": 8.0, "one-fold-01": 1.0}
    assert spent.used("another") == 0.0


def test_a_killed_attempt_has_spent_what_its_last_beat_says(tmp_path: Path) -> None:
    path, clock = tmp_path / "record.json", FakeClock()
    record = RunRecord.start(path, replace(facts(tmp_path), price_per_hour=3600.0), clock)
    clock.pass_seconds(3)
    with record.spent.training("one"):
        clock.pass_seconds(4)
        record.beat()
        clock.pass_seconds(100)  # and nothing is written any more

    again = RunRecord.start(path, replace(facts(tmp_path), price_per_hour=3600.0), clock)
    assert again.spent.used("one") == 4.0
    clock.pass_seconds(1)
    again.finish(Ending("finished", "done", "met"))
    content = json.loads(path.read_bytes())
    assert content["seconds"] == content["price"] == 8.0
    assert [attempt["seconds"] for attempt in content["attempts"]] == [7.0, 1.0]
    assert "ending" not in content["attempts"][0]
    assert content["training_seconds"] == {"one": 4.0}


def test_a_complete_record_is_not_written_by_a_late_beat(tmp_path: Path) -> None:
    path, clock = tmp_path / "record.json", FakeClock()
    record = RunRecord.start(path, facts(tmp_path), clock)
    record.finish(Ending("finished", "done", "met"))
    before = path.read_bytes()
    clock.pass_seconds(9)
    record.beat()
    assert path.read_bytes() == before


@pytest.mark.parametrize("value", ["[]", '{"one": "long"}', '{"one": -1}', "3"])
def test_seconds_that_are_none_are_a_damaged_record(tmp_path: Path, value: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(f'{{"attempts": [], "training_seconds": {value}}}')
    with pytest.raises(StorageFailed, match="training_seconds"):
        RunRecord.start(path, facts(tmp_path))


def test_it_beats_beside_the_block_until_its_end_and_a_full_disk_does_not_end_it() -> None:
    beats: list[int] = []
    enough = threading.Event()

    def beat() -> None:
        beats.append(1)
        if len(beats) >= 3:
            enough.set()
        raise StorageFailed("full")

    with beating(beat, most_seconds=0.001):
        assert enough.wait(within(30))
    count = len(beats)
    assert not [thread for thread in threading.enumerate() if thread.name == "heartbeat"]
    assert len(beats) == count
