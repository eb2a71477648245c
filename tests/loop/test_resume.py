"""Invariant 4: a run that is cut and resumed ends with the same bits as one left alone.

Invariant 6: there is a checkpoint at step 0 and at every ending, whole or absent.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from canary import (  # noqa: E402
    STEPS,
    STEPS_PER_EPOCH,
    Canary,
    Killed,
    Setting,
    everything,
    journal,
    resumed_from,
    start,
)
from comparing import differences  # noqa: E402
from trainwright.checkpoint import commit, local, store  # noqa: E402
from trainwright.checkpoint.state import Snapshot, Stateful  # noqa: E402
from trainwright.checkpoint.store import Checkpoints, Loaded  # noqa: E402
from trainwright.core.errors import StorageFailed  # noqa: E402
from trainwright.core.faultpoints import FAULT_POINTS  # noqa: E402
from trainwright.engine import saving  # noqa: E402
from trainwright.engine.guard import Halt, Judgement, Keep  # noqa: E402
from trainwright.engine.stop import TimeLimit  # noqa: E402
from trainwright.testing.checkpoints import MemoryCheckpoints  # noqa: E402
from trainwright.tracking.events import (  # noqa: E402
    Event,
    Saved,
    Saving,
    StepKept,
    StepOutcome,
    Validated,
)

pytestmark = pytest.mark.torch

FULL, EARLY = Setting(), Setting(stops_early=True)
EARLY_STEP, BEST_STEP = 8, 5
SPARSE = Setting(checkpoint_every=4, validate_every=5)


@cache
def unbroken(setting: Setting) -> tuple[dict[str, object], dict[int, tuple[str, ...]]]:
    with TemporaryDirectory() as folder:
        canary = start(Path(folder), MemoryCheckpoints(), setting)
        ended = canary.fit()
        return everything(canary, ended), journal(canary)


def stop_at(canary: Canary, step: int) -> None:
    """Ask for an orderly end after a step."""

    def react(event: Event) -> None:
        if isinstance(event, StepKept) and event.progress.step == step:
            canary.flag.raise_flag("SIGTERM")

    canary.on_event.append(react)
    if step == 0:
        canary.flag.raise_flag("SIGTERM")


def die_at(canary: Canary, kind: type, step: int) -> None:
    """Die while the observers are told of an event of a step."""

    def react(event: Event) -> None:
        if isinstance(event, kind) and event.progress.step == step:
            raise Killed

    canary.on_event.append(react)


def assert_resumes(
    folder: Path, checkpoints: object, setting: Setting, *dead: Canary, process: int = 100
) -> Canary:
    """The run goes on in a new process and ends as the unbroken one; steps made twice are equal."""
    canary = start(folder, checkpoints, setting, process)
    ended = canary.fit()
    whole, steps = unbroken(setting)
    assert differences(everything(canary, ended), whole) == []
    for process in (*dead, canary):
        seen = journal(process)
        assert seen == {step: steps[step] for step in seen}
    return canary


def test_the_unbroken_runs_are_what_the_cuts_are_made_of() -> None:
    whole, steps = unbroken(FULL)
    assert whole["ending"] == ("finished", "all 12 steps")
    assert sorted(steps) == list(range(1, STEPS + 1))
    early, steps = unbroken(EARLY)
    assert early["ending"][0] == "early"
    assert f"best 0 at step {BEST_STEP}" in early["ending"][1]
    assert sorted(steps) == list(range(1, EARLY_STEP + 1))


@pytest.mark.row("F-11")
@pytest.mark.parametrize("step", range(STEPS + 1))
def test_stopped_in_order_at_every_step(step: int, tmp_path: Path) -> None:
    first = start(tmp_path, Checkpoints(tmp_path / "ckpt", 2), FULL)
    stop_at(first, step)
    ended = first.fit()
    assert ended.kind == ("finished" if step == STEPS else "interrupted")
    second = assert_resumes(tmp_path, Checkpoints(tmp_path / "ckpt", 2), FULL, first)
    assert resumed_from(second) == step
    assert set(journal(first)).isdisjoint(journal(second))


@pytest.mark.row("F-11")
@pytest.mark.parametrize("step", range(1, EARLY_STEP + 1))
def test_stopped_at_every_step_of_a_run_that_ends_early(step: int, tmp_path: Path) -> None:
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
        patch.setattr(local, "reached", reached)
        patch.setattr(saving, "reached", reached)
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


# A resume that restores something wrongly must be seen: each mutant disturbs one component.

Mutant = Callable[[Canary, MemoryCheckpoints], None]


def not_restored(part: str) -> Mutant:
    return lambda canary, _: canary.change(
        state={**canary.job.state, part: NotRestored(canary.job.state[part])}
    )


def then(part: str, disturb: Callable[[], object]) -> Mutant:
    """Restore it, and disturb it."""
    return lambda canary, _: canary.change(
        state={**canary.job.state, part: Disturbed(canary.job.state[part], disturb)}
    )


def tensor(part: str, name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Mutant:
    def mutate(snapshot: Snapshot) -> Snapshot:
        assert name in snapshot.tensors
        changed = {**snapshot.tensors, name: change(snapshot.tensors[name])}
        return Snapshot(tensors=changed, values=snapshot.values)

    return saved(part, mutate)


def value(part: str, name: str, change: Callable[[float], float]) -> Mutant:
    def mutate(snapshot: Snapshot) -> Snapshot:
        values = snapshot.values
        changed = {**values, name: change(float(values[name]))}
        return Snapshot(tensors=snapshot.tensors, values=changed)

    return saved(part, mutate)


def saved(part: str, mutate: Callable[[Snapshot], Snapshot]) -> Mutant:
    """Change what the newest checkpoint holds."""

    def apply(_: Canary, checkpoints: MemoryCheckpoints) -> None:
        newest = checkpoints.kept[-1]
        parts = {**newest.parts, part: mutate(newest.parts[part])}
        checkpoints.kept[-1] = replace(newest, parts=parts)

    return apply


def forget_the_cursor(canary: Canary, _: MemoryCheckpoints) -> None:
    canary.change(feed=NeverMoved(canary.feed))


@dataclass(frozen=True)
class NotRestored:
    inner: Stateful

    def snapshot(self) -> Snapshot:
        return self.inner.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Forgotten."""


@dataclass(frozen=True)
class Disturbed:
    inner: Stateful
    disturb: Callable[[], object]

    def snapshot(self) -> Snapshot:
        return self.inner.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        self.inner.restore(snapshot)
        self.disturb()


@dataclass(frozen=True)
class NeverMoved:
    inner: object

    def next_step(self) -> object:
        return self.inner.next_step()

    def seek(self, samples: int) -> None:
        """Forgotten."""


def one_bit(tensor: torch.Tensor) -> torch.Tensor:
    """The next larger number in one place."""
    changed = tensor.clone()
    flat = changed.view(-1)
    flat[0] = torch.nextafter(flat[0], torch.tensor(torch.inf))
    return changed


MUTANTS: dict[str, Mutant] = {
    "model not restored": not_restored("model"),
    "optimizer not restored": not_restored("optimizer"),
    "random not restored": not_restored("random"),
    "patience not restored": not_restored("patience"),
    "cursor not moved": forget_the_cursor,
    "one bit of a weight": tensor("model", "0.weight", one_bit),
    "one bit of a running mean": tensor("model", "1.running_mean", one_bit),
    "running variance from the start": tensor("model", "1.running_var", torch.ones_like),
    "batches counted from the start": tensor("model", "1.num_batches_tracked", torch.zeros_like),
    "first moment from the start": tensor("optimizer", "state/5.bias/exp_avg", torch.zeros_like),
    "one bit of a first moment": tensor("optimizer", "state/0.weight/exp_avg", one_bit),
    "one bit of a second moment": tensor("optimizer", "state/0.weight/exp_avg_sq", one_bit),
    "optimizer's step + 1": tensor("optimizer", "state/0.weight/step", lambda step: step + 1),
    "optimizer's step - 1": tensor("optimizer", "state/4.bias/step", lambda step: step - 1),
    "one draw of torch": then("random", lambda: torch.rand(1)),
    "one draw of numpy": then("random", np.random.rand),
    "one draw of python": then("random", random.random),
    "best value": value("patience", "best", lambda best: best - 1000),
    "best step": value("patience", "best_step", lambda step: step + 1),
    "without gain + 1": value("patience", "without_gain", lambda count: count + 1),
    "without gain from the start": value("patience", "without_gain", lambda count: -1),
    "last told step": value("patience", "told_step", lambda step: -1),
    "samples + 1": value("progress", "samples", lambda samples: samples + 1),
    "samples - a step": value("progress", "samples", lambda samples: samples - 4),
    "step + 1": value("progress", "step", lambda step: step + 1),
    "step - 1": value("progress", "step", lambda step: step - 1),
    "attempted + 1": value("progress", "attempted", lambda step: step + 1),
    "epoch + 1": value("progress", "epoch", lambda epoch: epoch + 1),
}


def ends_alike(mutate: Mutant, setting: Setting, cut: int, folder: Path) -> bool:
    checkpoints = MemoryCheckpoints()
    first = start(folder, checkpoints, setting)
    stop_at(first, cut)
    first.fit()
    second = start(folder, checkpoints, setting, process=100)
    mutate(second, checkpoints)
    try:
        ended = second.fit()
    except ValueError:  # batch norm refuses a micro-batch of one row
        return False
    return not differences(everything(second, ended), unbroken(setting)[0])


@pytest.mark.row("F-13")
@pytest.mark.parametrize("name", MUTANTS)
def test_a_resume_that_restores_one_thing_wrongly_is_seen(name: str, tmp_path: Path) -> None:
    cuts = [(SPARSE, 5), (EARLY, 7), (EARLY, EARLY_STEP), (SPARSE, STEPS)]
    assert not all(
        ends_alike(MUTANTS[name], setting, cut, tmp_path / str(number))
        for number, (setting, cut) in enumerate(cuts)
    )


@pytest.mark.row("F-13")
def test_the_same_way_without_a_mutation_is_alike(tmp_path: Path) -> None:
    cuts = [(SPARSE, 5), (EARLY, 7), (EARLY, EARLY_STEP), (SPARSE, STEPS)]
    for number, (setting, cut) in enumerate(cuts):
        assert ends_alike(lambda *_: None, setting, cut, tmp_path / str(number))


# Endings.


def newest(folder: Path) -> Loaded:
    loaded = Checkpoints(folder / "ckpt", 1).newest_valid()
    assert isinstance(loaded, Loaded)
    return loaded


def rare(tmp_path: Path) -> Canary:
    """A run with a checkpoint at step 0, and else only at its ending."""
    setting = Setting(checkpoint_every=1000, validate_every=1000)
    return start(tmp_path, Checkpoints(tmp_path / "ckpt", 1), setting)


def test_there_is_a_checkpoint_before_the_first_step(tmp_path: Path) -> None:
    canary = rare(tmp_path)
    die_at(canary, StepKept, 1)
    before = canary.job.state["model"].snapshot()
    with pytest.raises(Killed):
        canary.fit()
    loaded = newest(tmp_path)
    assert loaded.step == 0
    for name, kept in loaded.parts["model"].tensors.items():
        assert torch.equal(kept, before.tensors[name])


class HaltsAtTheFifth:
    def __init__(self) -> None:
        self.judged = 0

    def judge(self, outcome: StepOutcome) -> Judgement:
        self.judged += 1
        return Halt("enough") if self.judged == 5 else Keep()


def end_by_halting(canary: Canary) -> None:
    canary.change(guard=HaltsAtTheFifth())


def end_by_budget(canary: Canary) -> None:
    def react(event: Event) -> None:
        if isinstance(event, StepKept) and event.progress.step == 4:
            canary.job.state["clock"].restore(Snapshot(values={"used_seconds": 1e10}))

    canary.on_event.append(react)


def end_by_patience(canary: Canary) -> None:
    def react(event: Event) -> None:
        if isinstance(event, StepKept) and event.progress.step == 4:
            values = canary.job.patience.snapshot().values
            canary.job.patience._patience = 0
            canary.job.patience.restore(Snapshot(values=values))

    canary.on_event.append(react)


@pytest.mark.parametrize(
    ("kind", "step", "arrange"),
    [
        ("finished", STEPS, lambda canary: None),
        ("interrupted", 4, lambda canary: stop_at(canary, 4)),
        ("halted", 4, end_by_halting),
        ("budget", 4, end_by_budget),
        ("early", 4, end_by_patience),
    ],
)
def test_there_is_a_checkpoint_at_every_ending(
    kind: str, step: int, arrange: Callable[[Canary], None], tmp_path: Path
) -> None:
    canary = rare(tmp_path)
    arrange(canary)
    ended = canary.fit()
    assert (ended.kind, ended.progress.step) == (kind, step)
    loaded = newest(tmp_path)
    assert loaded.step == step
    validated = [event for event in canary.seen.events if isinstance(event, Validated)]
    assert len(validated) == (kind in ("finished", "early", "budget"))
    for name, tensor in canary.model.state_dict().items():
        assert torch.equal(loaded.parts["model"].tensors[name], tensor)


def test_a_save_that_fails_ends_the_run_and_the_older_checkpoint_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = start(tmp_path, Checkpoints(tmp_path / "ckpt", 1), FULL)

    def full_disk(name: str) -> None:
        if name == "ckpt.manifest" and canary.feed.samples:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(commit, "reached", full_disk)
        with pytest.raises(StorageFailed, match="No space left"):
            canary.fit()
    assert newest(tmp_path).step == 0
    assert_resumes(tmp_path, Checkpoints(tmp_path / "ckpt", 1), FULL, canary)


def test_the_time_used_is_counted_over_resumes() -> None:
    limit = TimeLimit(10, "the budget")
    limit.restore(Snapshot(values={"used_seconds": 9.0}))
    assert 9.0 <= float(limit.snapshot().values["used_seconds"]) < 10.0


def samples_after(step: int) -> int:
    epochs, rest = divmod(step, STEPS_PER_EPOCH)
    return epochs * 22 + rest * 4
