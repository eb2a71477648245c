"""Invariants 1, 3 and 8 of the loop; the others have files of their own."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from canary import STEPS, STEPS_PER_EPOCH, Canary, Setting, start  # noqa: E402
from held import Held  # noqa: E402
from trainwright.checkpoint.states.random_state import RandomState  # noqa: E402
from trainwright.checkpoint.store import Checkpoints, Loaded  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.data.loading.feed import Batch, Feed  # noqa: E402
from trainwright.engine.job import Job  # noqa: E402
from trainwright.engine.loop import fit  # noqa: E402
from trainwright.engine.stopping.stop_rules import Patience, StepLimit, StopReason  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.objective.losses import LossSum  # noqa: E402
from trainwright.optim.lr_schedule import cosine_with_warmup  # noqa: E402
from trainwright.optim.schedule import LearningRate  # noqa: E402
from trainwright.testing.fakes import (  # noqa: E402
    MemoryCheckpoints,
    RecordingObserver,
)
from trainwright.tracking.events import StepKept  # noqa: E402

pytestmark = pytest.mark.torch


# 1. Every rule is asked each time, also after one has given a reason.


class CountingRule:
    def __init__(self, fires_at: int) -> None:
        self.fires_at = fires_at
        self.asked: list[int] = []

    def reason(self, progress: Progress) -> StopReason | None:
        self.asked.append(progress.step)
        return StopReason("budget", str(self.fires_at)) if progress.step >= self.fires_at else None


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_every_stop_rule_is_asked_each_time(order: tuple[int, ...], tmp_path: Path) -> None:
    rules = [CountingRule(fires_at) for fires_at in (4, 4, 99)]
    canary = start(tmp_path, MemoryCheckpoints())
    canary.change(stop_rules=tuple(rules[index] for index in order))
    assert canary.fit().progress.step == 4
    for rule in rules:
        assert rule.asked == [0, 1, 2, 3, 4]


def test_the_first_rule_that_gives_a_reason_names_the_ending(tmp_path: Path) -> None:
    canary = start(tmp_path, MemoryCheckpoints())
    canary.change(stop_rules=(CountingRule(99), CountingRule(3), CountingRule(2)))
    canary.job.stop_rules[2].fires_at = 3
    canary.job.stop_rules[1].fires_at = 3
    assert canary.fit().reason == "3"


# 3. A non-finite loss or gradient never reaches the weights, nor the optimizer's moments.


def poison_input(canary: Canary) -> None:
    canary.feed._loader.store._tensors[0][9, 2] = math.inf


def poison_label(canary: Canary) -> None:
    canary.feed._loader.store._tensors[1][9] = math.nan


def poison_loss(canary: Canary) -> None:
    canary.feed._loader.store._tensors[1][9] = (
        1e30  # its square is infinite in fp32, every number in it finite
    )


def poison_gradient(canary: Canary) -> None:
    def hook(gradient: torch.Tensor) -> torch.Tensor:
        touched = canary.feed._ready[canary.feed._next - 1]
        bad = touched.samples - touched.rows <= position_of_row_nine(canary) < touched.samples
        return gradient * math.nan if bad else gradient

    canary.model[0].weight.register_hook(hook)


def position_of_row_nine(canary: Canary) -> int:
    return canary.feed.order.at(0, 0, canary.feed.rows).tolist().index(9)


@pytest.mark.parametrize("poison", [poison_input, poison_label, poison_loss, poison_gradient])
def test_a_number_that_is_not_finite_reaches_nothing(poison: object, tmp_path: Path) -> None:
    clean = start(tmp_path / "clean", MemoryCheckpoints())
    bad_step = position_of_row_nine(clean) // 4
    assert 0 < bad_step < STEPS_PER_EPOCH - 1
    clean.change(stop_rules=(StepLimit(bad_step),))
    clean.fit()

    canary = start(
        tmp_path / "bad", Checkpoints(tmp_path / "ckpt", 99), Setting(checkpoint_every=3)
    )
    poison(canary)
    ended = canary.fit()
    assert (ended.kind, ended.progress.step) == ("halted", bad_step)
    assert f"samples {4 * bad_step} to {4 * bad_step + 3} (epoch 0)" in ended.reason
    for name, tensor in canary.model.state_dict().items():
        assert torch.equal(tensor, clean.model.state_dict()[name]), name
    moments = clean.optimizer.state_dict()["state"]
    for index, state in canary.optimizer.state_dict()["state"].items():
        for key, value in state.items():
            assert torch.equal(value, moments[index][key]), key
    assert math.isfinite(canary.job.patience.best)
    assert_all_checkpoints_are_finite(tmp_path / "ckpt")


def assert_all_checkpoints_are_finite(folder: Path) -> None:
    from safetensors.torch import load_file

    files = sorted(folder.glob("step-*/*.safetensors"))
    assert files
    for path in files:
        for name, tensor in load_file(path).items():
            assert torch.isfinite(tensor.double()).all(), (path, name)
    loaded = Checkpoints(folder, 1).newest_valid()
    assert isinstance(loaded, Loaded)


def test_a_halted_run_that_is_resumed_with_the_data_mended_goes_on(tmp_path: Path) -> None:
    bad = start(tmp_path, Checkpoints(tmp_path / "ckpt", 1))
    poison_label(bad)
    halted = bad.fit()
    assert halted.kind == "halted"
    mended = start(tmp_path, Checkpoints(tmp_path / "ckpt", 1), process=3)
    ended = mended.fit()
    assert (ended.kind, ended.progress.step) == ("finished", STEPS)
    kept = [e.progress.step for e in mended.seen.events if isinstance(e, StepKept)]
    assert kept[0] == halted.progress.step + 1


@pytest.mark.parametrize("direction", ["min", "max"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_validation_that_is_not_finite_is_never_the_best(bad: float, direction: str) -> None:
    patience = Patience("val_loss", direction, 2)
    told = [patience.tell(value, step) for step, value in enumerate([bad, 3.0, bad])]
    assert told == [False, True, False]
    assert (patience.best, patience.best_step) == (3.0, 1)
    assert not patience.tell(bad, 4)
    assert patience.reason(Progress()) is not None


@pytest.mark.parametrize("max_norm", [math.inf, 0.5])
def test_the_way_that_reads_nothing_is_the_way_that_does(max_norm: float, tmp_path: Path) -> None:
    """What a device does without waiting, held here against the host: update, clipping, drop."""
    both = [start(tmp_path / str(number), MemoryCheckpoints()) for number in (0, 1)]
    steps = []
    for canary, strategy in zip(both, (None, Held()), strict=True):
        # The gradient of a bias before batch norm is rounding alone, which Adam must not blow up.
        canary.model.double()
        canary.optimizer.param_groups[0]["eps"] = 1e-3
        store = canary.feed._loader.store
        store._tensors = store._tensors.apply(lambda tensor: tensor.double())
        old = canary.job.step
        steps.append(
            OptimizerStep(
                canary.model,
                old._objective,
                canary.optimizer,
                max_norm=max_norm,
                strategy=strategy,
            )
        )
    for number in range(8):
        if number == 5:
            for canary in both:
                canary.feed._loader.store._tensors[0][:] = math.nan
                canary.feed.seek(canary.feed.samples)
        state = RandomState().snapshot()
        before = copy.deepcopy(both[1].model.state_dict())
        outcomes = []
        for canary, step in zip(both, steps, strict=True):
            RandomState().restore(state)
            outcomes.append(step(canary.feed.next_step()))
        assert isinstance(outcomes[1].gradient_norm, torch.Tensor)
        assert isinstance(outcomes[1].found_nonfinite, torch.Tensor)
        assert float(outcomes[0].found_nonfinite) == float(outcomes[1].found_nonfinite)
        assert float(outcomes[1].found_nonfinite) == (number >= 5)
        if number >= 5:
            for name, tensor in both[1].model.state_dict().items():
                assert torch.equal(tensor, before[name]), name
        pairs = zip(
            both[0].model.state_dict().values(), both[1].model.state_dict().values(), strict=True
        )
        for one, other in pairs:
            assert torch.allclose(one, other, rtol=0, atol=1e-6)
    states = [canary.optimizer.state_dict()["state"] for canary in both]
    for index, state in states[0].items():
        assert float(state["step"]) == float(states[1][index]["step"]) == 5
        assert torch.isfinite(states[1][index]["exp_avg_sq"]).all()


# 8. The learning-rate schedule advances by applied steps, never by micro-batches.


def linear_job(accumulate: int, observer: RecordingObserver, poisoned: bool = False) -> Job:
    torch.manual_seed(0)
    x = torch.randn(48, 3)
    y = x.sum(dim=1, keepdim=True)
    if poisoned:
        x = x.clone()
        x[:] = math.nan
    model = nn.Linear(3, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, fused=True)

    def objective(model: nn.Module, batch: Batch) -> LossSum:
        return LossSum((model(batch[0]) - batch[1]).square().sum(), len(batch[0]))

    return Job(
        model=model,
        feed=Feed([x, y], 12 // accumulate, accumulate),
        step=OptimizerStep(model, objective, optimizer),
        knobs=(LearningRate(optimizer, cosine_with_warmup(20, 4, 0.1)),),
        stop_rules=(StepLimit(20),),
        observers=(observer,),
    )


@pytest.mark.parametrize("accumulate", [1, 2, 3, 4, 12])
def test_the_schedule_counts_steps_and_not_micro_batches(accumulate: int) -> None:
    seen = RecordingObserver()
    fit(linear_job(accumulate, seen))
    rates = [e.outcome.learning_rate for e in seen.events if isinstance(e, StepKept)]
    schedule = cosine_with_warmup(20, 4, 0.1)
    assert rates == [schedule(step) for step in range(20)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]


def test_a_dropped_step_is_not_counted_as_applied() -> None:
    seen = RecordingObserver()
    ended = fit(linear_job(2, seen, poisoned=True))
    assert (ended.kind, ended.progress.step) == ("halted", 0)
    assert not [event for event in seen.events if isinstance(event, StepKept)]
