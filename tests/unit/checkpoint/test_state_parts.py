"""Each part of the state says what a rollback does with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

import trainwright as tw  # noqa: E402
from trainwright.checkpoint.state import StatePart, StateParts, merge_state  # noqa: E402
from trainwright.checkpoint.states.random_state import RandomState  # noqa: E402
from trainwright.engine.guards.step_guard import Keep, RollBack  # noqa: E402
from trainwright.engine.loop import fit  # noqa: E402
from trainwright.testing.fakes import CounterState, MemoryCheckpoints  # noqa: E402
from trainwright.tracking.events import StepOutcome  # noqa: E402

pytestmark = pytest.mark.torch


class RollsBackOnce:
    def __init__(self) -> None:
        self.steps = 0

    def judge(self, outcome: StepOutcome) -> Keep | RollBack:
        self.steps += 1
        return RollBack("once", 2) if self.steps == 3 else Keep()


def objective(model: nn.Module, batch: tuple[Tensor, ...]) -> tw.LossSum:
    return tw.LossSum(model(batch[0]).square().sum(), len(batch[0]))


@pytest.mark.parametrize(("on_rollback", "count"), [("restore", 4), ("keep", 6)])
def test_a_part_says_what_a_rollback_does(
    on_rollback: Literal["restore", "keep"], count: int
) -> None:
    counter = CounterState()
    model = nn.Linear(2, 1)
    step = tw.OptimizerStep(model, objective, torch.optim.SGD(model.parameters(), lr=0.1))
    job = tw.Job(
        model=model,
        feed=tw.Feed([torch.ones(8, 2)], batch_size=2),
        step=step,
        knobs=(lambda progress: counter.advance(),),
        guard=RollsBackOnce(),
        stop_rules=(tw.StepLimit(4),),
        checkpoints=MemoryCheckpoints(),
        checkpoint_every=tw.Every(1),
        state=StateParts([StatePart("counter", counter, on_rollback)]),
    )
    fit(job)
    assert counter.count == count


def test_the_class_of_a_part_says_it_otherwise() -> None:
    parts = StateParts.of({"random": RandomState(), "counter": CounterState()}).parts
    assert [part.on_rollback for part in parts] == ["keep", "restore"]
    explicit = [replace(part, on_rollback="keep") for part in parts]
    assert merge_state(StateParts(explicit)).parts == tuple(explicit)


def test_doubles_are_refused_however_they_come() -> None:
    one = StatePart.of("random", RandomState())
    with pytest.raises(AssertionError, match="two parts of the state are called random"):
        StateParts([one, one])
