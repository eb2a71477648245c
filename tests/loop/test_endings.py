"""Invariant 6: there is a checkpoint at step 0 and at every ending, whole or absent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from canary import (  # noqa: E402
    STEPS,
    Canary,
    Killed,
    Setting,
    start,
)
from cuts import (  # noqa: E402
    FULL,
    assert_resumes,
    die_at,
    stop_at,
)
from trainwright.checkpoint.state import Snapshot  # noqa: E402
from trainwright.checkpoint.storages import commit  # noqa: E402
from trainwright.checkpoint.store import Checkpoints, Loaded  # noqa: E402
from trainwright.core.errors import StorageFailed  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.engine.guards.step_guard import Halt, Judgement, Keep  # noqa: E402
from trainwright.engine.stopping.stop_rules import TimeLimit  # noqa: E402
from trainwright.tracking.events import (  # noqa: E402
    Event,
    StepKept,
    StepOutcome,
    Validated,
)

pytestmark = pytest.mark.torch


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


def test_a_shortened_training_is_as_short_after_a_resume() -> None:
    limit = TimeLimit(10, "the budget", planned_steps=100, shortens=True)
    assert [limit.map_to_plan(step) for step in (0, 50, 99)] == [0, 50, 99]
    limit.restore(Snapshot(values={"used_seconds": 1.0}))
    assert limit.map_to_plan(50) == 50
    limit.restore(Snapshot(values={"used_seconds": 1.0, "shortened": [10, 10, 31, 100]}))
    assert [limit.map_to_plan(step) for step in (10, 20, 30)] == [10, 54, 99]
    assert limit.snapshot().values["shortened"] == [10, 10, 31, 100]
    extended = TimeLimit(10, "the budget", planned_steps=200, shortens=True)
    extended.restore(limit.snapshot())
    assert extended.map_to_plan(50) == 50
    reason = limit.reason(Progress(step=31))
    assert reason is not None
    assert reason.kind == "budget"
