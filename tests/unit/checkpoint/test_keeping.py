"""What stays in a folder: pins, milestones, what a run left by going back, and crashes between."""

from __future__ import annotations

import math
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from faults.tiers import in_test
from trainwright.checkpoint.files.file_entry import name_of
from trainwright.checkpoint.keeping.pins import pin, unpin
from trainwright.checkpoint.keeping.retention import NOT_SCORED, NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.storages.catalog import list_checkpoints
from trainwright.checkpoint.storages.ledger import Ledger
from trainwright.checkpoint.store import Checkpoints, Loaded
from trainwright.core.faultpoints import arm

pytestmark = pytest.mark.torch

CRASHES = ("ckpt.open", "ckpt.manifest", "ckpt.post_rename", "ckpt.ledger", "ckpt.pointer")


def parts_of(mark: int) -> dict[str, Snapshot]:
    return {"model": Snapshot(tensors={"w": torch.full((2,), float(mark))}, values=mark)}


def steps_in(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in folder.glob("step-*"))


def best_step(checkpoints: Checkpoints) -> int:
    best = checkpoints.best_valid()
    return best.step if isinstance(best, Loaded) else -1


def killed_at(point: str, checkpoints: Checkpoints, mark: int, step: int, score: float) -> None:
    """A process of its own dies in the save."""
    child = os.fork()
    if child == 0:
        arm(f"{point}:1:kill")
        checkpoints.save(step, parts_of(mark), {}, score)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def gone_back(folder: Path) -> Checkpoints:
    """Steps 10 to 30, of which 30 is the best; then back to 10."""
    checkpoints = Checkpoints(folder, 1, keep_last=3)
    for step, score in ((0, 9.0), (10, 0.5), (20, 0.4), (30, 0.1)):
        checkpoints.save(step, parts_of(step), {}, score)
    back = checkpoints.newest_valid(15)
    assert isinstance(back, Loaded)
    assert back.step == 10
    checkpoints.save(10, parts_of(11), {}, 0.5)
    return checkpoints


def test_what_the_run_left_is_not_the_best(tmp_path: Path) -> None:
    checkpoints = gone_back(tmp_path)
    assert best_step(checkpoints) == 10
    assert best_step(Checkpoints(tmp_path, 1)) == 10
    checkpoints.save(14, parts_of(14), {}, 0.6)
    checkpoints.save(40, parts_of(40), {}, 0.7)
    assert best_step(checkpoints) == 10
    assert 30 not in steps_in(tmp_path)


@pytest.mark.parametrize("lost", ["ledger.jsonl", "ledger's last line", "nothing"])
def test_it_is_not_the_best_either_after_a_crash(lost: str, tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 1)
    checkpoints.save(10, parts_of(10), {}, 0.5)
    checkpoints.save(30, parts_of(30), {}, 0.1)
    killed_at("ckpt.post_rename", checkpoints, 11, 10, 0.5)
    ledger = tmp_path / "ledger.jsonl"
    if lost == "ledger.jsonl":
        ledger.unlink()
    elif lost != "nothing":
        ledger.write_bytes(ledger.read_bytes()[:-5])
    again = Checkpoints(tmp_path, 1)
    newest = again.newest_valid()
    assert isinstance(newest, Loaded)
    assert newest.parts["model"].values == 11
    assert best_step(again) == 10


def test_the_mark_of_what_was_left_outlives_what_it_follows_from(tmp_path: Path) -> None:
    checkpoints = gone_back(tmp_path)
    assert pin(tmp_path, name_of(30)) == (30 in steps_in(tmp_path))
    for step in (12, 50, 60, 70, 80):
        checkpoints.save(step, parts_of(step), {}, 5.0)
    kinds = [line.kind for line in Ledger(tmp_path / "ledger.jsonl").read().lines]
    assert "abandoned" in kinds
    assert best_step(Checkpoints(tmp_path, 1)) == 10


def test_what_was_left_is_loaded_when_nothing_else_verifies(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 1)
    checkpoints.save(10, parts_of(10), {}, 0.5)
    checkpoints.save(30, parts_of(30), {}, 0.1)
    checkpoints.save(10, parts_of(11), {}, 0.5)
    (tmp_path / name_of(10) / "values.json").write_bytes(b"")
    found = Checkpoints(tmp_path, 1).newest_valid()
    assert isinstance(found, Loaded)
    assert found.step == 30
    assert name_of(10) in found.rejected[0]


def test_a_pin_holds_while_the_run_is_at_work(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 1)
    for step in range(1, 9):
        checkpoints.save(step, parts_of(step), {}, float(step))
        if step == 3:
            assert pin(tmp_path, name_of(3))
    assert steps_in(tmp_path) == [1, 3, 7, 8]
    assert [one.step for one in list_checkpoints(tmp_path) if one.pinned] == [3]
    assert not pin(tmp_path, name_of(5))
    assert unpin(tmp_path, name_of(3))
    assert not unpin(tmp_path, name_of(3))
    checkpoints.save(9, parts_of(9), {}, 9.0)
    assert steps_in(tmp_path) == [1, 8, 9]


def test_milestones_and_the_last_three_stay(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 1, keep_last=3, keep_every_n_steps=10)
    for step in range(0, 45, 4):
        checkpoints.save(step, parts_of(step), {}, -float(step))
    assert steps_in(tmp_path) == [12, 20, 32, 36, 40, 44]


def test_the_list_changes_nothing(tmp_path: Path) -> None:
    gone_back(tmp_path)
    (tmp_path / ".tmp-half").mkdir()
    before = sorted(path.name for path in tmp_path.rglob("*"))
    listed = {one.step: one for one in list_checkpoints(tmp_path)}
    assert before == sorted(path.name for path in tmp_path.rglob("*"))
    assert listed[10].newest
    assert listed[10].best
    assert listed[10].size_bytes == sum(
        path.stat().st_size for path in (tmp_path / name_of(10)).iterdir()
    )
    assert list_checkpoints(tmp_path / "nothing") == []


def three_rollbacks(folder: Path, life: str) -> list[int]:
    """Where they go: at step 401, and each next one after one good step. Scores only get better."""

    def begin() -> Checkpoints:
        return Checkpoints(folder, 1, rollback_steps=5)

    checkpoints = begin()
    for step in range(0, 500, 100):
        checkpoints.save(step, parts_of(step), {}, -float(step))
        if step == 100 and life == "pinned":
            assert pin(folder, name_of(step))
        if step == 100 and life.startswith("resumed"):
            checkpoints = begin()
            checkpoints.newest_valid()
    if life == "resumed twice":
        checkpoints = begin()
        checkpoints.newest_valid()
    assert (100 in steps_in(folder)) == (life != "unbroken")
    went_to: list[int] = []
    up_to, further = 401, 0
    for _ in range(3):
        back = checkpoints.newest_valid(up_to, further)
        assert isinstance(back, Loaded)
        checkpoints.save(back.step, parts_of(back.step), {}, back.score)
        if life == "resumed between":
            checkpoints = begin()
            checkpoints.newest_valid()
        went_to.append(back.step)
        up_to, further = back.step + 1, 2
    return went_to


@pytest.mark.parametrize(
    "life", ["unbroken", "pinned", "resumed", "resumed twice", "resumed between"]
)
def test_rollbacks_pass_over_what_an_unbroken_run_would_not_have(life: str, tmp_path: Path) -> None:
    """Also the third, when what was left has made room among the newest."""
    assert three_rollbacks(tmp_path, life) == [400, 300, 300]


def test_a_rollback_takes_another_where_the_rule_has_kept_none(tmp_path: Path) -> None:
    three_rollbacks(tmp_path, "pinned")
    back = Checkpoints(tmp_path, 1).newest_valid(299)
    assert isinstance(back, Loaded)
    assert back.step == 100


def test_the_best_is_none_that_an_unbroken_run_would_not_have(tmp_path: Path) -> None:
    """It goes back to before the best, where what it was resumed from is better than what it has:
    the unbroken run has let that go."""
    found = {}
    for life in ("unbroken", "resumed", "pinned"):
        folder = tmp_path / life
        checkpoints = Checkpoints(folder, 1, rollback_steps=54)
        for step, score in ((0, 3.0), (50, 2.0), (54, 2.5), (60, 1.0), (70, 4.0), (71, 4.0)):
            checkpoints.save(step, parts_of(step), {}, score)
            if step == 50 and life == "pinned":
                pin(folder, name_of(50))
            if step == 50 and life == "resumed":
                checkpoints = Checkpoints(folder, 1, rollback_steps=54)
                checkpoints.newest_valid()
        assert (50 in steps_in(folder)) == (life != "unbroken")
        back = checkpoints.newest_valid(58)
        assert isinstance(back, Loaded)
        checkpoints.save(back.step, parts_of(back.step), {}, back.score)
        found[life] = (best_step(checkpoints), checkpoints.best_names())
        listed = [one.step for one in list_checkpoints(folder) if one.best]
        assert listed == [best_step(checkpoints)]
    assert found["unbroken"][0] == 54
    assert found["resumed"] == found["pinned"] == found["unbroken"]


def test_the_ending_may_be_the_best_though_the_run_does_not_save_there(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 1, planned=lambda step: step % 10 == 0)
    for step, score in ((0, NOT_SCORED), (10, 0.5), (20, 0.4), (23, 0.1)):
        checkpoints.save(step, parts_of(step), {}, score)
    assert best_step(checkpoints) == 23
    again = Checkpoints(tmp_path, 1, planned=lambda step: step % 10 == 0)
    assert best_step(again) == 23
    again.save(30, parts_of(30), {}, 0.3)
    assert best_step(again) == 30


class History:
    """Random saves, rollbacks and crashes in a folder, beside what is known of them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.draw = random.Random(seed)
        self.keep = self.draw.randint(1, 3)
        self.saved: dict[int, tuple[int, float | NotScored]] = {}
        """Step to mark and score, of the course that the run is on."""
        self.mark = 0
        self.open()

    def open(self) -> None:
        self.checkpoints = Checkpoints(self.folder, self.keep)
        self.pinned = {name.step for name in list_checkpoints(self.folder) if name.pinned}

    def save(self, step: int, score: float | NotScored) -> None:
        self.mark += 1
        point = self.draw.choice(CRASHES) if self.draw.random() < 0.3 else ""
        if point:
            killed_at(point, self.checkpoints, self.mark, step, score)
        else:
            self.checkpoints.save(step, parts_of(self.mark), {}, score)
        if point not in CRASHES[:2]:
            self.saved = {s: v for s, v in self.saved.items() if s < step}
            self.saved[step] = (self.mark, score)
        if point:
            self.open()
            self.assert_newest()

    def roll_back(self) -> None:
        back = self.checkpoints.newest_valid(max(self.saved) - 1)
        if isinstance(back, Loaded):
            self.save(back.step, back.score)

    def assert_newest(self) -> None:
        newest = self.checkpoints.newest_valid()
        assert isinstance(newest, Loaded)
        step = max(self.saved)
        assert (newest.step, newest.parts["model"].values) == (step, self.saved[step][0])
        assert newest.rejected == ()

    def assert_sound(self) -> None:
        self.open()
        self.assert_newest()
        scored = {s: v[1] for s, v in self.saved.items() if isinstance(v[1], float)}
        there = {s: score for s, score in scored.items() if s in steps_in(self.folder)}
        finite = [s for s in sorted(there) if math.isfinite(there[s])]
        best = min(finite, key=lambda s: there[s], default=-1)
        assert best_step(self.checkpoints) == best
        assert {one.step for one in list_checkpoints(self.folder)} == set(steps_in(self.folder))
        others = {p.name for p in self.folder.iterdir() if not p.name.startswith("step-")}
        assert others == {"ledger.jsonl", "pointers.json"}


@pytest.mark.row("F-24")
@pytest.mark.parametrize("seed", in_test(2, range(16)))
def test_random_histories_on_the_disk(
    seed: int, tmp_path: Path, figure: Callable[..., None]
) -> None:
    history = History(tmp_path, seed)
    history.saved[0] = (1, NOT_SCORED)
    history.mark = 1
    history.checkpoints.save(0, parts_of(1), {}, NOT_SCORED)
    for _ in range(8):
        if history.draw.random() < 0.2 and len(history.saved) > 1:
            history.roll_back()
        else:
            step = max(history.saved) + history.draw.randint(1, 3)
            history.save(step, history.draw.choice([NOT_SCORED, math.nan, 0.5, 0.5, 0.25, 0.75]))
    history.assert_sound()
    figure(histories=1, violations=0)
