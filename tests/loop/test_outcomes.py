"""Events of each step, and of each save and validation, and when."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from canary import start  # noqa: E402
from command import with_layers, write_project  # noqa: E402
from contract_runs import train  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.engine.guards.step_guard import Drop, DroppedStep, Halt, Judgement, Keep  # noqa: E402
from trainwright.engine.save_interval import ByClock, FirstOf  # noqa: E402
from trainwright.engine.stopping.stop_rules import Reserve  # noqa: E402
from trainwright.testing.fakes import MemoryCheckpoints  # noqa: E402
from trainwright.tracking.events import StepOutcome  # noqa: E402

pytestmark = pytest.mark.torch


class Journal:
    """An observer of outcomes and a guard that keeps, drops and halts."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def take_outcome(self, outcome: StepOutcome) -> None:
        self.lines.append(f"told {outcome.samples}")

    def judge(self, outcome: StepOutcome) -> Judgement:
        self.lines.append(f"judged {outcome.samples}")
        if outcome.samples == 8:
            return Drop((DroppedStep("", (), 1.0, 1.0),))
        return Halt("enough") if outcome.samples == 12 else Keep()


def test_every_outcome_is_told_before_it_is_judged(tmp_path: Path) -> None:
    """Also those that are dropped or end the run: a guard judges late on a device, and an average
    may not miss an update that stands."""
    canary, journal = start(tmp_path, MemoryCheckpoints()), Journal()
    canary.change(outcome_observers=(journal,), guard=journal)
    assert canary.fit().kind == "halted"
    assert journal.lines == [f"{what} {at}" for at in (4, 8, 12) for what in ("told", "judged")]


class Asked:
    def __init__(self) -> None:
        self.times = 0

    def due(self, progress: Progress) -> bool:
        self.times += 1
        return True


def test_every_reason_to_save_is_asked() -> None:
    """A request that is not taken at its step would save again after the next one."""
    asked = Asked(), Asked()
    assert FirstOf(asked).due(Progress())
    assert [one.times for one in asked] == [1, 1]


def test_a_run_learns_what_its_saves_and_validations_cost(tmp_path: Path) -> None:
    settings = ("training.stop.max_steps=20", "training.checkpointing.save_every_minutes=0.0001")
    run = train(write_project(tmp_path, with_layers("[8]")), "one", *settings)
    (reserve,) = (one for one in run.job.observers if isinstance(one, Reserve))
    assert set(reserve._longest) == {"save", "validation"}
    assert min(reserve._longest.values()) > 0
    assert sum(isinstance(one, ByClock) for one in run.job.observers) == 1
