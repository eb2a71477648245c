"""The guard at losses that leap up: on a regression with a loss that is measured honestly and
poisoned by position."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from canary import Killed  # noqa: E402
from faults.tiers import each, in_test  # noqa: E402
from trainwright.checkpoint.states.module_state import ModuleState  # noqa: E402
from trainwright.checkpoint.states.optimizer_state import OptimizerState  # noqa: E402
from trainwright.checkpoint.states.random_state import RandomState  # noqa: E402
from trainwright.contract.sections.training.training import Guard  # noqa: E402
from trainwright.data.loading.feed import Batch, Feed  # noqa: E402
from trainwright.engine.guards.rollback import RollbackBackoff  # noqa: E402
from trainwright.engine.guards.step_guard import PolicyGuard  # noqa: E402
from trainwright.engine.job import Every, Job  # noqa: E402
from trainwright.engine.loop import fit  # noqa: E402
from trainwright.engine.stopping.stop_rules import StepLimit  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.objective.losses import LossSum  # noqa: E402
from trainwright.optim.lr_schedule import Schedule, constant, cosine_with_warmup  # noqa: E402
from trainwright.optim.schedule import LearningRate  # noqa: E402
from trainwright.testing.fakes import (  # noqa: E402
    MemoryCheckpoints,
    RecordingObserver,
)
from trainwright.tracking.events import (  # noqa: E402
    Ended,
    Event,
    RolledBack,
    StepDropped,
    StepKept,
)

pytestmark = pytest.mark.torch


# Spikes, on a regression with a loss that is measured honestly and poisoned by position.


def trained(
    seed: int,
    *,
    steps: int = 300,
    rate: float = 0.01,
    schedule: Schedule = constant,
    loss_factor: Callable[[int], float] = lambda _: 1.0,
    policy: dict[str, object] | None = None,
    window: int = 1,
    batch: int = 16,
    saves: int = 20,
    store: MemoryCheckpoints | None = None,
) -> tuple[Ended, list[Event]]:
    """A small network; the loss (and so the gradient) of attempted step i is times a factor."""
    torch.manual_seed(seed)
    x = torch.randn(512, 6)
    y = torch.sin(x).sum(dim=1, keepdim=True) + 0.1 * torch.randn(512, 1)
    model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, fused=True)
    feed = Feed([x, y], batch, seed=seed)

    def objective(model: nn.Module, rows: Batch) -> LossSum:
        factor = loss_factor((feed.samples - 1) // batch)
        return LossSum(factor * (model(rows[0]) - rows[1]).square().sum(), len(rows[0]))

    section = Guard(**(policy or {}))
    caution = RollbackBackoff(optimizer, section.learning_rate_factor, section.learning_rate_steps)
    guard = PolicyGuard(section, caution, feed.rows_between, window=window)
    seen = RecordingObserver()
    job = Job(
        model=model,
        feed=feed,
        step=OptimizerStep(model, objective, optimizer).dropping_above(guard.limit),
        stop_rules=(StepLimit(steps),),
        knobs=(LearningRate(optimizer, schedule), caution),
        guard=guard,
        state={
            "model": ModuleState(model),
            "optimizer": OptimizerState(optimizer, model.named_parameters()),
            "random": RandomState(),
            "guard": guard,
            "watch": guard.watch,
            "caution": caution,
        },
        observers=(seen,),
        checkpoints=MemoryCheckpoints() if store is None else store,
        checkpoint_every=Every(saves),
    )
    return fit(job), seen.events


def bad_stretch(step: int) -> float:
    return 1000.0 if 100 <= step < 110 else 1.0


@pytest.mark.parametrize("window", [1, 25])
def test_a_poisoned_stretch_is_left_behind(window: int) -> None:
    ended, events = trained(0, loss_factor=bad_stretch, window=window)
    backs = [event for event in events if isinstance(event, RolledBack)]
    assert ended.kind == "finished"
    assert backs
    assert all("loss spike: " in back.why for back in backs)
    assert all(back.progress.step <= 100 for back in backs)
    kept = {e.progress.step: float(e.outcome.loss) for e in events if isinstance(e, StepKept)}
    assert max(loss for step, loss in kept.items() if step > 120) < 10


def bad_region(step: int) -> float:
    return 1000.0 if 100 <= step < 125 else 1.0


def trained_rows(events: list[Event]) -> dict[int, float]:
    """The loss of each attempted step whose update is part of the run's end: what is rolled back is
    not."""
    kept: dict[int, tuple[int, float]] = {}
    for event in events:
        if isinstance(event, StepKept):
            kept[event.progress.step] = (event.outcome.samples // 16 - 1, float(event.outcome.loss))
        elif isinstance(event, RolledBack | StepDropped):
            kept = {step: one for step, one in kept.items() if step <= event.progress.step}
    return dict(kept.values())


@pytest.mark.parametrize("saves", [20, 10**6], ids=["a new checkpoint", "only that of step 0"])
@pytest.mark.parametrize("window", [1, 10])
def test_no_step_of_a_bad_region_is_trained(window: int, saves: int) -> None:
    ended, events = trained(0, loss_factor=bad_region, window=window, saves=saves)
    assert ended.kind == "finished"
    assert len([event for event in events if isinstance(event, RolledBack)]) == 1
    (back,) = (at for at, event in enumerate(events) if isinstance(event, RolledBack))
    after = events[back:]
    named = [event for event in after if isinstance(event, StepDropped)]
    assert all("after the rollback" in event.why and event.rows for event in named)
    # On a device a step is kept until its window is judged.
    kept = {
        event.outcome.samples // 16 - 1: event.outcome.loss
        for event in after
        if isinstance(event, StepKept)
    }
    dropped = {event.loss for event in named}
    assert not [step for step in range(100, 125) if step in kept and kept[step] not in dropped]
    assert min(step for step, loss in kept.items() if loss not in dropped) <= 150


def test_a_level_that_stays_is_trained_on_after_a_while() -> None:
    """Other data, not a bad region: it must not be dropped for ever."""
    ended, events = trained(0, steps=400, loss_factor=lambda step: 50.0 if step >= 100 else 1.0)
    assert ended.kind == "finished"
    assert len([event for event in events if isinstance(event, StepDropped)]) <= 64
    assert max(trained_rows(events)) > 400


@pytest.mark.parametrize("window", [1, 10])
@pytest.mark.parametrize("cut", each(2, [101, 103, 110, 124, 140]))
def test_a_cut_in_a_bad_region_changes_no_bit(cut: int, window: int) -> None:
    lives = [cut]

    def dying(step: int) -> float:
        if step in lives:
            lives.clear()
            raise Killed
        return bad_region(step)

    store = MemoryCheckpoints()
    with pytest.raises(Killed):
        trained(0, loss_factor=dying, window=window, store=store)
    ended, events = trained(0, loss_factor=dying, window=window, store=store)
    whole, all_events = trained(0, loss_factor=bad_region, window=window)
    assert ended == whole
    again, at_once = trained_rows(events), trained_rows(all_events)
    assert len(again) > 150
    assert again == {step: at_once[step] for step in again}


def test_a_spike_halts_under_raise() -> None:
    ended, _ = trained(0, loss_factor=bad_stretch, policy={"spike": "raise"})
    assert ended.kind == "halted"
    assert ended.progress.attempted == 102
    assert "loss spike: " in ended.reason


def test_a_spike_is_left_alone_under_ignore() -> None:
    ended, events = trained(0, loss_factor=bad_stretch, policy={"spike": "ignore"})
    assert (ended.kind, ended.progress.attempted) == ("finished", 300)
    assert not [event for event in events if isinstance(event, RolledBack)]


def test_a_stretch_without_end_spends_the_budget_and_halts() -> None:
    def worse_and_worse(step: int) -> float:
        return 10.0 ** (3 * (step // 200))

    ended, events = trained(0, steps=2000, loss_factor=worse_and_worse)
    assert ended.kind == "halted"
    assert "The rollbacks (3) are spent" in ended.reason
    assert len([event for event in events if isinstance(event, RolledBack)]) == 3


@pytest.mark.row("F-27")
def test_an_exploding_learning_rate_never_ends_in_weights_that_are_not_finite() -> None:
    def explode(step: int) -> float:
        return 1.0 if step < 100 else 400.0 * (step - 99)

    ended, events = trained(
        0, schedule=explode, policy={"non_finite": "rollback", "learning_rate_factor": 1e-3}
    )
    assert [event for event in events if isinstance(event, RolledBack)]
    assert ended.kind in ("halted", "finished")


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("seed", in_test(3, range(5)))
def test_clean_runs_raise_no_alarm(seed: int, rate: float) -> None:
    schedule = cosine_with_warmup(400, 20, 0.01)
    ended, events = trained(seed, steps=400, rate=rate, schedule=schedule, batch=8)
    assert (ended.kind, ended.progress.attempted) == ("finished", 400)
    assert not [event for event in events if isinstance(event, RolledBack | StepDropped)]


def test_a_learning_rate_that_leaps_up_arms_it_anew() -> None:
    def restart(step: int) -> float:
        return 0.01 if step < 150 else 1.0

    ended, events = trained(0, rate=0.3, schedule=restart)
    assert ended.kind == "finished"
    assert not [event for event in events if isinstance(event, RolledBack)]


def test_a_run_without_any_update_ends_under_ignore() -> None:
    ended, _ = trained(0, loss_factor=lambda _: math.nan, policy={"non_finite": "ignore"})
    assert ended.kind == "halted"
    assert "100 steps in a row" in ended.reason
