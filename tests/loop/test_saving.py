"""Saves in the background, through the loop: killed anywhere, it ends with the same bits."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from canary import (  # noqa: E402
    STEPS,
    Canary,
    Setting,
    everything,
    resumed_from,
    start,
    start_in_background,
    unbroken,
)
from comparing import differences  # noqa: E402
from faults.tiers import each  # noqa: E402
from trainwright.checkpoint.state import Snapshot  # noqa: E402
from trainwright.checkpoint.store import Checkpoints, Loaded  # noqa: E402
from trainwright.core.errors import StorageFailed  # noqa: E402
from trainwright.core.faultpoints import FAULT_POINTS, arm  # noqa: E402
from trainwright.engine.guards.step_guard import Judgement, Keep, RollBack  # noqa: E402
from trainwright.tracking.events import (  # noqa: E402
    Ended,
    Event,
    SaveBegun,
    Saved,
    Saving,
    StepKept,
    StepOutcome,
)

pytestmark = pytest.mark.torch

OFTEN = Setting(checkpoint_every=1, validate_every=5)
SPARSE = Setting(checkpoint_every=4, validate_every=5)
SAVE_POINTS = [
    point
    for point in FAULT_POINTS
    if point.startswith("ckpt.") and point not in ("ckpt.load", "ckpt.aside")
]


def in_turn(folder: Path, setting: Setting) -> Canary:
    return start(folder, Checkpoints(folder / "ckpt", 1), setting)


def begin(folder: Path, setting: Setting, process: int = 0) -> Canary:
    return start_in_background(folder, Checkpoints(folder / "ckpt", 1), setting, process)


def assert_ends_alike(folder: Path, setting: Setting, process: int = 100) -> Canary:
    canary = begin(folder, setting, process)
    ended = canary.fit()
    assert differences(everything(canary, ended), unbroken(setting)) == []
    return canary


def run_in_child(folder: Path, setting: Setting, process: int, faults: str = "") -> int:
    """The run in a process of its own, from the newest checkpoint; the process's number."""
    child = os.fork()
    if child == 0:
        arm(faults)
        begin(folder, setting, process).fit()
        os._exit(0)
    return child


def code_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("setting", [OFTEN, SPARSE, Setting(stops_early=True)])
def test_it_changes_no_bit(setting: Setting, tmp_path: Path) -> None:
    canary = assert_ends_alike(tmp_path, setting, process=0)
    assert_ends_alike(tmp_path, setting)
    newest = Checkpoints(tmp_path / "ckpt", 1).newest_valid()
    assert isinstance(newest, Loaded)
    assert newest.step == canary.seen.events[-1].progress.step


@pytest.mark.row("F-03")
@pytest.mark.parametrize("nth", each(3, [2, 3, 5], start=1))
@pytest.mark.parametrize("point", SAVE_POINTS)
def test_killed_while_it_is_written(point: str, nth: int, tmp_path: Path) -> None:
    child = run_in_child(tmp_path, SPARSE, 0, f"{point}:{nth}:kill")
    assert code_of(child) == -signal.SIGKILL
    # Before the first checkpoint there is nothing but the seed to start from.
    there = any((tmp_path / "ckpt").glob("step-*"))
    assert_ends_alike(tmp_path, SPARSE, process=100 if there else 0)


@pytest.mark.row("F-03")
def test_killed_at_random_times_until_it_ends(tmp_path: Path) -> None:
    draw = random.Random(4)
    for process in range(12):
        there = any((tmp_path / "ckpt").glob("step-*"))
        child = run_in_child(tmp_path, OFTEN, 100 + process if there else 0)
        time.sleep(draw.uniform(0.0, 0.2))
        os.kill(child, signal.SIGKILL)
        code = code_of(child)
        if code == 0:
            break
        assert code == -signal.SIGKILL
    # On a busy machine each of them may die before its first checkpoint.
    there = any((tmp_path / "ckpt").glob("step-*"))
    assert_ends_alike(tmp_path, OFTEN, process=100 if there else 0)


def test_events_tell_when_it_is_begun_and_when_it_is_there(tmp_path: Path) -> None:
    canary = begin(tmp_path, SPARSE)
    canary.fit()
    told = [event for event in canary.seen.events if isinstance(event, Saving | SaveBegun | Saved)]
    steps = {
        kind: [e.progress.step for e in told if isinstance(e, kind)]
        for kind in (Saving, SaveBegun, Saved)
    }
    assert steps[Saving] == steps[SaveBegun] == steps[Saved] == [0, 4, 5, 8, 10, 12, 12]
    saved = [event for event in told if isinstance(event, Saved)]
    assert all(event.stall_seconds > 0 and event.size_bytes > 0 for event in saved)
    assert isinstance(canary.seen.events[-1], Ended)


def test_a_synchronous_save_stalls_for_all_of_it(tmp_path: Path) -> None:
    canary = in_turn(tmp_path, SPARSE)
    canary.fit()
    saved = [event for event in canary.seen.events if isinstance(event, Saved)]
    assert all(event.stall_seconds >= event.seconds for event in saved)
    assert not any(isinstance(event, SaveBegun) for event in canary.seen.events)


class Slow:
    """Row F-25: a disk that is ten times slower; how many saves are under way at once."""

    def __init__(self, store: Checkpoints) -> None:
        self.store = store
        self.under_way = self.most = 0
        self.taking, self.settled = store.taking, store.settled
        self.newest_valid = store.newest_valid

    def save(self, step: int, parts: Mapping[str, Snapshot], inventory: object, score: object):  # type: ignore[no-untyped-def]
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        time.sleep(0.05)
        saved = self.store.save(step, parts, inventory, score)  # type: ignore[arg-type]
        self.under_way -= 1
        return saved


@pytest.mark.row("F-25")
def test_a_slow_disk_has_one_save_under_way_and_changes_no_bit(tmp_path: Path) -> None:
    slow = Slow(Checkpoints(tmp_path / "ckpt", 1))
    canary = start_in_background(tmp_path, slow, OFTEN)
    ended = canary.fit()
    assert differences(everything(canary, ended), unbroken(OFTEN)) == []
    assert slow.most == 1
    saved = [event for event in canary.seen.events if isinstance(event, Saved)]
    assert [event.progress.step for event in saved] == [*range(STEPS + 1), STEPS]


def fail_at(canary: Canary, step: int, faults: str) -> None:
    def react(event: Event) -> None:
        if isinstance(event, Saving) and event.progress.step == step:
            arm(faults)

    canary.on_event.append(react)


@pytest.mark.row("F-16")
def test_a_save_that_failed_ends_the_run_between_two_steps(tmp_path: Path) -> None:
    canary = begin(tmp_path, SPARSE)
    fail_at(canary, 4, "ckpt.write:1:enospc")
    with pytest.raises(StorageFailed, match="No space left"):
        canary.fit()
    arm("")
    kept = [e.progress.step for e in canary.seen.events if isinstance(e, StepKept)]
    assert max(kept) <= 5, "the next boundary tells it"
    resumed = assert_ends_alike(tmp_path, SPARSE)
    assert resumed_from(resumed) == 0


class Boom(Exception):
    """An error in a step."""


def test_an_error_elsewhere_waits_for_what_is_being_written(tmp_path: Path) -> None:
    canary = begin(tmp_path, SPARSE)

    def react(event: Event) -> None:
        if isinstance(event, SaveBegun) and event.progress.step == 4:
            raise Boom

    canary.on_event.append(react)
    with pytest.raises(Boom):
        canary.fit()
    assert not list((tmp_path / "ckpt").glob(".tmp-*"))
    assert resumed_from(assert_ends_alike(tmp_path, SPARSE)) == 4


def test_an_error_elsewhere_tells_of_a_lost_save_too(tmp_path: Path) -> None:
    canary = begin(tmp_path, SPARSE)
    fail_at(canary, 4, "ckpt.fsync:1:delay=0.1,ckpt.manifest:1:enospc")

    def react(event: Event) -> None:
        if isinstance(event, SaveBegun) and event.progress.step == 4:
            raise Boom

    canary.on_event.append(react)
    with pytest.raises(Boom) as caught:
        canary.fit()
    assert "is lost too" in caught.value.__notes__[0]


class BackOnce:
    """Rolls back once, right after a save was begun."""

    def __init__(self) -> None:
        self.judged = 0

    def judge(self, outcome: StepOutcome) -> Judgement:
        self.judged += 1
        return RollBack("enough", steps=1) if self.judged == 9 else Keep()


def test_a_rollback_waits_for_the_save_and_finds_it(tmp_path: Path) -> None:
    ends = []
    for name, started in (("sync", in_turn), ("async", begin)):
        canary = started(tmp_path / name, SPARSE)
        canary.change(guard=BackOnce())
        ends.append(everything(canary, canary.fit()))
    assert differences(*ends) == []
