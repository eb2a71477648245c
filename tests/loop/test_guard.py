"""Each injected fault ends as its policy says; rollbacks and skipped steps resume bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from canary import STEPS, Canary, Killed, Setting, everything, start  # noqa: E402
from comparing import differences  # noqa: E402
from trainwright.checkpoint.module import ModuleState  # noqa: E402
from trainwright.checkpoint.optimizer import OptimizerState  # noqa: E402
from trainwright.checkpoint.random_state import RandomState  # noqa: E402
from trainwright.checkpoint.store import Checkpoints, Loaded  # noqa: E402
from trainwright.contract.guard import Guard  # noqa: E402
from trainwright.data.feed import Batch, Feed, StepBatches  # noqa: E402
from trainwright.engine.caution import Caution  # noqa: E402
from trainwright.engine.guard import PolicyGuard  # noqa: E402
from trainwright.engine.job import Every, Job  # noqa: E402
from trainwright.engine.loop import fit  # noqa: E402
from trainwright.engine.step import OptimizerStep  # noqa: E402
from trainwright.engine.stop import StepLimit  # noqa: E402
from trainwright.objective.losses import LossSum  # noqa: E402
from trainwright.optim.knob import LearningRate  # noqa: E402
from trainwright.optim.schedule import Schedule, constant, cosine_with_warmup  # noqa: E402
from trainwright.testing.checkpoints import MemoryCheckpoints  # noqa: E402
from trainwright.testing.observers import RecordingObserver  # noqa: E402
from trainwright.tracking.events import (  # noqa: E402
    Ended,
    Event,
    Resumed,
    RolledBack,
    Saved,
    Saving,
    StepDropped,
    StepKept,
)

pytestmark = pytest.mark.torch

BAD_STEPS = (4, 5, 6)
"""Attempted steps, from 0, whose rows are poisoned in the runs below."""


def guarded(canary: Canary, window: int = 1, **policy: object) -> Canary:
    section = Guard(**{"learning_rate_steps": 3, **policy})
    caution = Caution(canary.optimizer, section.learning_rate_factor, section.learning_rate_steps)
    guard = PolicyGuard(section, caution, canary.feed.rows_between, window=window)
    canary.change(
        guard=guard,
        knobs=(*canary.job.knobs, caution),
        state={**canary.job.state, "guard": guard, "caution": caution},
    )
    return canary


@dataclass
class PoisonedFeed:
    """A feed of which some steps of the first epoch hold one bad number, wherever it is moved."""

    feed: Feed
    steps: tuple[int, ...]
    value: float

    def next_step(self) -> StepBatches:
        work = self.feed.next_step()
        if work.epoch or (work.samples - 1) // 4 not in self.steps:
            return work
        (x, y), *rest = work.micro_batches
        x = x.clone()
        x[0, 2] = self.value
        return work._replace(micro_batches=[(x, y), *rest])

    def seek(self, samples: int) -> None:
        self.feed.seek(samples)


def poison(canary: Canary, steps: tuple[int, ...], value: float = math.nan) -> None:
    canary.change(feed=PoisonedFeed(canary.feed, steps, value))


def assert_finite(folder: Path) -> None:
    from safetensors.torch import load_file

    files = sorted(folder.glob("step-*/*.safetensors"))
    assert files
    for path in files:
        for name, tensor in load_file(path).items():
            assert torch.isfinite(tensor.double()).all(), (path, name)


def of_kind(canary: Canary, kind: type) -> list[Event]:
    return [event for event in canary.seen.events if isinstance(event, kind)]


def poisoned(folder: Path, steps: tuple[int, ...], value: float = math.nan, **policy: object):
    canary = guarded(
        start(folder / "run", Checkpoints(folder / "ckpt", 99), Setting(checkpoint_every=3)),
        **policy,
    )
    poison(canary, steps, value)
    return canary


@pytest.mark.row("F-27")
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_raise_names_the_rows(value: float, tmp_path: Path) -> None:
    canary = poisoned(tmp_path, (4,), value)
    ended = canary.fit()
    assert (ended.kind, ended.progress.step, ended.progress.attempted) == ("halted", 4, 4)
    rows = canary.feed.order.at(0, 16, 20).tolist()
    assert f"training rows {', '.join(map(str, rows))}" in ended.reason
    assert_finite(tmp_path / "ckpt")


@pytest.mark.row("F-27")
def test_skip_leaves_the_step_out_and_says_which_rows(tmp_path: Path) -> None:
    canary = poisoned(tmp_path, (3, 4), non_finite="skip")
    ended = canary.fit()
    assert ended.kind == "finished"
    assert (ended.progress.step, ended.progress.attempted) == (STEPS, STEPS + 2)
    first, second = of_kind(canary, StepDropped)
    assert first.rows == tuple(canary.feed.order.at(0, 12, 16).tolist())
    assert (first.progress.step, second.progress.step) == (3, 3)
    assert math.isnan(first.loss)
    assert math.isnan(first.gradient_norm)
    assert not of_kind(canary, RolledBack)
    assert_finite(tmp_path / "ckpt")


def test_the_schedule_does_not_count_a_skipped_step(tmp_path: Path) -> None:
    canary = poisoned(tmp_path, (3, 4), non_finite="skip")
    canary.fit()
    schedule = cosine_with_warmup(STEPS, 3, 0.01)
    rates = [event.outcome.learning_rate for event in of_kind(canary, StepKept)]
    assert rates == [0.05 * schedule(step) for step in range(STEPS)]


@pytest.mark.row("F-27")
def test_as_many_in_a_row_as_allowed_roll_back(tmp_path: Path) -> None:
    canary = poisoned(tmp_path, (3, 4, 5), non_finite="skip")
    ended = canary.fit()
    (back,) = of_kind(canary, RolledBack)
    assert (back.from_step, back.progress.step) == (3, 3)
    assert "3 steps in a row" in back.why
    assert (ended.kind, ended.progress.step, ended.progress.attempted) == (
        "finished",
        STEPS,
        STEPS + 3,
    )


def test_rollback_puts_the_checkpoint_back_leaves_the_rows_and_saves_at_once(
    tmp_path: Path,
) -> None:
    canary = poisoned(tmp_path, (5,), non_finite="rollback")
    found: list[object] = []

    def watch(event: Event) -> None:
        if isinstance(event, Saved) and event.progress.step == 3 and not found:
            found.append({k: v.clone() for k, v in canary.model.state_dict().items()})
        if isinstance(event, RolledBack):
            found.append({k: v.clone() for k, v in canary.model.state_dict().items()})
            newest = Checkpoints(tmp_path / "ckpt", 99).newest_valid()
            assert isinstance(newest, Loaded)
            assert newest.parts["progress"].values == event.progress._asdict()

    canary.on_event.append(watch)
    ended = canary.fit()
    (back,) = of_kind(canary, RolledBack)
    # Validations every two steps save too: the newest good state is that of step 4.
    assert (back.from_step, back.progress.step, back.progress.samples) == (5, 4, 22)
    assert ended.kind == "finished"
    assert ended.progress == back.progress._replace(
        step=STEPS, attempted=6 + STEPS - 4, samples=ended.progress.samples, epoch=2
    )
    assert_finite(tmp_path / "ckpt")
    steps = [event.progress.step for event in of_kind(canary, StepKept)]
    assert steps == [1, 2, 3, 4, 5, *range(5, STEPS + 1)]


def test_the_learning_rate_is_lower_for_a_while_after_it(tmp_path: Path) -> None:
    canary = poisoned(tmp_path, (5,), non_finite="rollback", learning_rate_factor=0.25)
    canary.fit()
    schedule = cosine_with_warmup(STEPS, 3, 0.01)
    rates = [event.outcome.learning_rate for event in of_kind(canary, StepKept)][5:]
    usual = [0.05 * schedule(step) for step in range(4, STEPS)]
    assert rates == [0.25 * rate for rate in usual[:3]] + usual[3:]


def test_a_spent_budget_halts_with_a_diagnosis(tmp_path: Path) -> None:
    canary = poisoned(tmp_path, (2, 3, 4), non_finite="rollback", rollbacks=2)
    ended = canary.fit()
    assert ended.kind == "halted"
    assert "The rollbacks (2) are spent" in ended.reason
    assert len(of_kind(canary, RolledBack)) == 2
    assert_finite(tmp_path / "ckpt")


def test_ignore_drops_the_update_and_goes_on(tmp_path: Path) -> None:
    canary = poisoned(tmp_path, (1, 2, 3, 4), non_finite="ignore")
    ended = canary.fit()
    assert (ended.kind, ended.progress.attempted) == ("finished", STEPS + 4)
    assert len(of_kind(canary, StepDropped)) == 4


def test_a_run_without_any_update_ends_under_ignore() -> None:
    ended, _ = trained(0, loss_factor=lambda _: math.nan, policy={"non_finite": "ignore"})
    assert ended.kind == "halted"
    assert "100 steps in a row" in ended.reason


@pytest.mark.row("F-29")
@pytest.mark.parametrize("step", range(3, 9))
@pytest.mark.parametrize("policy", ["skip", "rollback"])
def test_a_kill_around_a_bad_step_changes_nothing(policy: str, step: int, tmp_path: Path) -> None:
    whole = poisoned(tmp_path / "whole", BAD_STEPS[:2], non_finite=policy)
    expected = everything(whole, whole.fit())

    cut = poisoned(tmp_path / "cut", BAD_STEPS[:2], non_finite=policy)

    def kill(event: Event) -> None:
        attempted = getattr(getattr(event, "progress", None), "attempted", 0)
        if attempted == step and not isinstance(event, Saving):
            raise Killed

    cut.on_event.append(kill)
    with pytest.raises(Killed):
        cut.fit()
    resumed = guarded(
        start(
            tmp_path / "cut" / "run",
            Checkpoints(tmp_path / "cut" / "ckpt", 99),
            Setting(checkpoint_every=3),
            process=4,
        ),
        non_finite=policy,
    )
    poison(resumed, BAD_STEPS[:2])
    assert differences(everything(resumed, resumed.fit()), expected) == []
    assert of_kind(resumed, Resumed)


@pytest.mark.row("F-29")
def test_a_kill_while_a_rollback_is_saved_changes_nothing(tmp_path: Path) -> None:
    """Before the saved state stands the bad rows are met again; after it they are not."""
    whole = poisoned(tmp_path / "whole", (5,), non_finite="rollback")
    expected = everything(whole, whole.fit())
    for number, kind in enumerate((Saving, Saved, RolledBack)):
        folder = tmp_path / str(number)
        cut = poisoned(folder, (5,), non_finite="rollback")

        def kill(event: Event, kind: type = kind) -> None:
            if isinstance(event, kind) and event.progress.attempted == 6:
                raise Killed

        cut.on_event.append(kill)
        with pytest.raises(Killed):
            cut.fit()
        resumed = guarded(
            start(folder / "run", Checkpoints(folder / "ckpt", 99), Setting(checkpoint_every=3), 7),
            non_finite="rollback",
        )
        poison(resumed, (5,))
        assert differences(everything(resumed, resumed.fit()), expected) == []
        assert len(of_kind(resumed, RolledBack)) == (1 if kind is Saving else 0)


@pytest.mark.parametrize("cut_at", range(2, 12))
def test_a_guard_that_reads_late_resumes_to_the_same_bits(cut_at: int, tmp_path: Path) -> None:
    """As on a device: the numbers of five steps are judged together, whatever was saved between."""

    def begin(name: str, process: int = 0) -> Canary:
        store = Checkpoints(tmp_path / name / "ckpt", 99)
        canary = start(tmp_path / name / "run", store, Setting(checkpoint_every=1), process)
        guarded(canary, window=5, non_finite="skip")
        poison(canary, (3,))
        return canary

    whole = begin("whole")
    expected = everything(whole, whole.fit())
    assert len(of_kind(whole, StepDropped)) == 1
    assert expected["progress"].step == STEPS
    assert expected["progress"].attempted == STEPS + 1

    cut = begin("cut")

    def stop(event: Event) -> None:
        if isinstance(event, StepKept) and event.progress.attempted == cut_at:
            cut.flag.raise_flag("SIGTERM")

    cut.on_event.append(stop)
    if cut.fit().kind != "interrupted":
        pytest.skip("no step is kept there")
    resumed = begin("cut", process=5)
    assert differences(everything(resumed, resumed.fit()), expected) == []


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
    caution = Caution(optimizer, section.learning_rate_factor, section.learning_rate_steps)
    guard = PolicyGuard(section, caution, feed.rows_between, window=window)
    seen = RecordingObserver()
    job = Job(
        model=model,
        feed=feed,
        step=OptimizerStep(model, objective, optimizer),
        stop_rules=(StepLimit(steps),),
        knobs=(LearningRate(optimizer, schedule), caution),
        guard=guard,
        state={
            "model": ModuleState(model),
            "optimizer": OptimizerState(optimizer, model.named_parameters()),
            "random": RandomState(),
            "guard": guard,
            "caution": caution,
        },
        observers=(seen,),
        checkpoints=MemoryCheckpoints(),
        checkpoint_every=Every(20),
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
    assert all("the loss rose to" in back.why for back in backs)
    assert all(back.progress.step <= 100 for back in backs)
    kept = {e.progress.step: float(e.outcome.loss) for e in events if isinstance(e, StepKept)}
    assert max(loss for step, loss in kept.items() if step > 120) < 10


def test_a_spike_halts_under_raise() -> None:
    ended, _ = trained(0, loss_factor=bad_stretch, policy={"spike": "raise"})
    assert ended.kind == "halted"
    assert ended.progress.attempted == 102
    assert "the loss rose to" in ended.reason


def test_a_spike_is_left_alone_under_ignore() -> None:
    ended, events = trained(0, loss_factor=bad_stretch, policy={"spike": "ignore"})
    assert (ended.kind, ended.progress.attempted) == ("finished", 300)
    assert not [event for event in events if isinstance(event, RolledBack)]


def test_a_stretch_without_end_spends_the_budget_and_halts() -> None:
    def worse_and_worse(step: int) -> float:
        return 10.0 ** (3 * (step // 60))

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
@pytest.mark.parametrize("seed", range(5))
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
