"""Invariant 4: a run that is cut and resumed ends with the same bits as one left alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from canary import (  # noqa: E402
    STEPS,
    STEPS_PER_EPOCH,
    Killed,
    Setting,
    journal,
    resumed_from,
    start,
)
from cuts import (  # noqa: E402
    BEST_STEP,
    EARLY,
    EARLY_STEP,
    FULL,
    SPARSE,
    assert_resumes,
    die_at,
    samples_after,
    stepwise,
    stop_at,
    unbroken,
)
from stepwise import steps_that_differ  # noqa: E402
from trainwright.checkpoint import store  # noqa: E402
from trainwright.checkpoint.state import Snapshot, Stateful  # noqa: E402
from trainwright.checkpoint.storages import commit, local_storage  # noqa: E402
from trainwright.checkpoint.store import Checkpoints  # noqa: E402
from trainwright.core.faultpoints import FAULT_POINTS  # noqa: E402
from trainwright.engine import saving as save_policy  # noqa: E402
from trainwright.tracking.events import Saved, Saving, StepKept, Validated  # noqa: E402

pytestmark = pytest.mark.torch


def test_the_unbroken_runs_are_what_the_cuts_are_made_of() -> None:
    whole, steps = unbroken(FULL)
    assert whole["ending"] == ("finished", "all 12 steps")
    assert sorted(steps) == list(range(1, STEPS + 1))
    early, steps = unbroken(EARLY)
    assert early["ending"][0] == "early"
    assert f"best 0 at step {BEST_STEP}" in early["ending"][1]
    assert sorted(steps) == list(range(1, EARLY_STEP + 1))


@pytest.mark.row("F-11")
@pytest.mark.parametrize("setting", [FULL, EARLY])
def test_every_step_follows_from_the_checkpoint_before_it(setting: Setting, tmp_path: Path) -> None:
    assert steps_that_differ(stepwise(tmp_path, setting)) == {}


@pytest.mark.row("F-11")
@pytest.mark.parametrize("step", [0, 7, STEPS])
def test_stopped_in_order(step: int, tmp_path: Path) -> None:
    first = start(tmp_path, Checkpoints(tmp_path / "ckpt", 2), FULL)
    stop_at(first, step)
    ended = first.fit()
    assert ended.kind == ("finished" if step == STEPS else "interrupted")
    second = assert_resumes(tmp_path, Checkpoints(tmp_path / "ckpt", 2), FULL, first)
    assert resumed_from(second) == step
    assert set(journal(first)).isdisjoint(journal(second))


@pytest.mark.row("F-11")
@pytest.mark.parametrize("step", [1, BEST_STEP, EARLY_STEP])
def test_stopped_in_a_run_that_ends_early(step: int, tmp_path: Path) -> None:
    first = start(tmp_path, Checkpoints(tmp_path / "ckpt", 1), EARLY)
    stop_at(first, step)
    assert first.fit().kind == ("early" if step == EARLY_STEP else "interrupted")
    assert_resumes(tmp_path, Checkpoints(tmp_path / "ckpt", 1), EARLY, first)


KILLS = [(StepKept, step) for step in range(1, STEPS + 1)]
KILLS += [(kind, step) for kind in (Saving, Saved, Validated) for step in (5, 10, 12)]
KILLS += [(kind, step) for kind in (Saving, Saved) for step in (4, 8)]


@pytest.mark.row("F-11")
@pytest.mark.parametrize(("kind", "step"), KILLS)
def test_killed_at_every_step(kind: type, step: int, tmp_path: Path) -> None:
    first = start(tmp_path, Checkpoints(tmp_path / "ckpt", 2), SPARSE)
    die_at(first, kind, step)
    with pytest.raises(Killed):
        first.fit()
    second = assert_resumes(tmp_path, Checkpoints(tmp_path / "ckpt", 2), SPARSE, first)
    assert step - resumed_from(second) <= SPARSE.checkpoint_every


@pytest.mark.row("F-11")
@pytest.mark.parametrize("step", [5, 10, 12])
def test_killed_in_a_validation(step: int, tmp_path: Path) -> None:
    first = start(tmp_path, Checkpoints(tmp_path / "ckpt", 2), SPARSE)
    validate = first.job.validate

    def die() -> object:
        if first.feed.samples == samples_after(step):
            raise Killed
        return validate()

    first.change(validate=die)
    with pytest.raises(Killed):
        first.fit()
    assert_resumes(tmp_path, Checkpoints(tmp_path / "ckpt", 2), SPARSE, first)


@pytest.mark.row("F-11")
@pytest.mark.parametrize("forward", range(1, 2 * STEPS - 1, 3))
def test_killed_inside_a_step(forward: int, tmp_path: Path) -> None:
    first = start(tmp_path, Checkpoints(tmp_path / "ckpt", 2), SPARSE)
    calls = []

    def die() -> None:
        calls.append(1)
        if len(calls) == forward:
            raise Killed

    first.on_forward.append(die)
    with pytest.raises(Killed):
        first.fit()
    assert_resumes(tmp_path, Checkpoints(tmp_path / "ckpt", 2), SPARSE, first)


NOT_IN_A_SAVE = ("ckpt.load", "ckpt.aside")
SAVE_POINTS = [
    point for point in FAULT_POINTS if point.startswith("ckpt.") and point not in NOT_IN_A_SAVE
]


@pytest.mark.row("F-01")
@pytest.mark.parametrize("save", [1, 2, 3, 4])
@pytest.mark.parametrize("point", SAVE_POINTS)
def test_killed_inside_a_save(
    point: str, save: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start(tmp_path, Checkpoints(tmp_path / "ckpt", 1), SPARSE)
    passed = []

    def reached(name: str) -> None:
        passed.append(name)
        if name == point and passed.count("ckpt.snapshot") == save:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(commit, "reached", reached)
        patch.setattr(store, "reached", reached)
        patch.setattr(local_storage, "reached", reached)
        patch.setattr(save_policy, "reached", reached)
        with pytest.raises(Killed):
            first.fit()
    # Before the first checkpoint there is nothing but the seed to start from.
    process = 0 if save == 1 else 100
    assert_resumes(tmp_path, Checkpoints(tmp_path / "ckpt", 1), SPARSE, first, process=process)


@pytest.mark.row("F-05")
def test_killed_five_times_in_one_epoch(tmp_path: Path) -> None:
    dead = []
    for process in range(5):
        canary = start(tmp_path, Checkpoints(tmp_path / "ckpt", 1), FULL, process)
        die_at(canary, StepKept, process + 2)
        with pytest.raises(Killed):
            canary.fit()
        dead.append(canary)
    assert [resumed_from(canary) for canary in dead] == [-1, 1, 2, 3, 4]
    assert_resumes(tmp_path, Checkpoints(tmp_path / "ckpt", 1), FULL, *dead)


@pytest.mark.row("F-05")
def test_killed_while_it_resumes(tmp_path: Path) -> None:
    first = start(tmp_path, Checkpoints(tmp_path / "ckpt", 1), FULL)
    die_at(first, StepKept, 7)
    with pytest.raises(Killed):
        first.fit()
    for part in ("model", "optimizer", "random", "patience"):
        canary = start(tmp_path, Checkpoints(tmp_path / "ckpt", 1), FULL, process=7)
        canary.change(state={**canary.job.state, part: DiesAtRestore(canary.job.state[part])})
        with pytest.raises(Killed):
            canary.fit()
    assert_resumes(tmp_path, Checkpoints(tmp_path / "ckpt", 1), FULL, first)


@dataclass(frozen=True)
class DiesAtRestore:
    inner: Stateful

    def snapshot(self) -> Snapshot:
        return self.inner.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        self.inner.restore(snapshot)
        raise Killed


@pytest.mark.row("F-12")
@pytest.mark.parametrize("setting", [FULL, EARLY, SPARSE])
def test_a_run_that_ended_stays_as_it_is(setting: Setting, tmp_path: Path) -> None:
    start(tmp_path, Checkpoints(tmp_path / "ckpt", 1), setting).fit()
    for _ in range(2):
        again = assert_resumes(tmp_path, Checkpoints(tmp_path / "ckpt", 1), setting)
        assert journal(again) == {}


@pytest.mark.row("F-12")
def test_a_longer_run_goes_on_from_the_end_of_a_shorter(tmp_path: Path) -> None:
    short = replace(FULL, steps=STEPS_PER_EPOCH)
    first = start(tmp_path, Checkpoints(tmp_path / "ckpt", 1), short)
    assert first.fit().kind == "finished"
    assert_resumes(tmp_path, Checkpoints(tmp_path / "ckpt", 1), FULL, first)
