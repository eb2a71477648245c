"""Invariants 1, 3, 7, 8 and 9 of the loop; the others have files of their own."""

from __future__ import annotations

import copy
import dataclasses
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from canary import STEPS, STEPS_PER_EPOCH, Canary, Setting, everything, start  # noqa: E402
from trainwright.checkpoint.random_state import RandomState  # noqa: E402
from trainwright.checkpoint.store import Checkpoints, Loaded  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.data.feed import Batch, Feed, StepBatches  # noqa: E402
from trainwright.engine.guard import HaltOnNonFinite  # noqa: E402
from trainwright.engine.job import Every, Job  # noqa: E402
from trainwright.engine.loop import fit  # noqa: E402
from trainwright.engine.step import OptimizerStep  # noqa: E402
from trainwright.engine.stop import Patience, StepLimit, StopReason  # noqa: E402
from trainwright.objective.losses import LossSum  # noqa: E402
from trainwright.optim.knob import LearningRate  # noqa: E402
from trainwright.optim.schedule import cosine_with_warmup  # noqa: E402
from trainwright.testing.checkpoints import MemoryCheckpoints  # noqa: E402
from trainwright.testing.observers import RecordingObserver  # noqa: E402
from trainwright.tracking.events import (  # noqa: E402
    Ended,
    Event,
    Saved,
    Saving,
    StepKept,
    StepOutcome,
    Validated,
)
from trainwright.tracking.signals import SignalRecorder  # noqa: E402

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


class Held:
    """A gradient norm that stays a tensor, as on a device."""

    ranks = 1

    def gradient_norm(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))


@pytest.mark.parametrize("max_norm", [math.inf, 0.5])
def test_the_way_that_reads_nothing_is_the_way_that_does(max_norm: float, tmp_path: Path) -> None:
    """What a device does without waiting, held here against the host: update, clipping, drop."""
    both = [start(tmp_path / str(number), MemoryCheckpoints()) for number in (0, 1)]
    steps = []
    for canary, strategy in zip(both, (None, Held()), strict=True):
        # The gradient of a bias before batch norm is rounding alone, which Adam must not blow up.
        canary.model.double()
        canary.optimizer.param_groups[0]["eps"] = 1e-3
        canary.feed._loader.store._tensors = tuple(
            tensor.double() for tensor in canary.feed._loader.store._tensors
        )
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


# 7. Observers cannot steer; validation leaves everything as found.


def test_nothing_in_an_event_can_be_set(tmp_path: Path) -> None:
    canary = start(tmp_path, MemoryCheckpoints())
    canary.fit()
    resumed = start(tmp_path, MemoryCheckpoints())
    kinds = {type(event) for event in canary.seen.events + resumed.seen.events}
    assert kinds >= {StepKept, Saving, Saved, Validated, Ended}
    for event in canary.seen.events:
        names = (
            event._fields
            if isinstance(event, StepKept)
            else [field.name for field in dataclasses.fields(event)]
        )
        for name in names:
            with pytest.raises(AttributeError):
                setattr(event, name, 0)
        for inner in (getattr(event, name) for name in names):
            if isinstance(inner, Progress | StepOutcome):
                with pytest.raises(AttributeError):
                    setattr(inner, inner._fields[0], 0)
            if isinstance(inner, Mapping):
                with pytest.raises(TypeError):
                    inner["val_loss"] = 0.0


class Meddler:
    """Tries every way that an observer has to steer."""

    def observe(self, event: Event) -> None:
        for change in (
            lambda: setattr(event, "progress", Progress(10**6)),
            lambda: event.values.update(val_loss=-1.0),
            lambda: event.values.clear(),
            lambda: setattr(event.outcome, "loss", math.nan),
        ):
            with pytest.raises((AttributeError, TypeError)):
                change()


def test_a_meddling_observer_changes_nothing(tmp_path: Path) -> None:
    alone = start(tmp_path / "alone", MemoryCheckpoints())
    expected = everything(alone, alone.fit())
    canary = start(tmp_path / "meddled", MemoryCheckpoints())
    canary.change(observers=(Meddler(), *canary.job.observers))
    assert everything(canary, canary.fit()) == expected


def test_validation_leaves_modes_random_numbers_and_cursor_as_found(tmp_path: Path) -> None:
    canary = start(tmp_path, MemoryCheckpoints())
    inner, seen = canary.job.validate, []

    def validate() -> Mapping[str, float]:
        seen.append((torch.is_grad_enabled(), [m.training for m in canary.model.modules()]))
        torch.rand(3)
        random.random()
        np.random.rand()
        canary.model[3].train()
        return inner()

    found: list[tuple[object, ...]] = []

    def state() -> tuple[object, ...]:
        shot = RandomState().snapshot()
        modes = [module.training for module in canary.model.modules()]
        return (
            shot.packed_values,
            shot.tensors["torch_cpu"].tolist(),
            modes,
            canary.feed.samples,
            torch.is_grad_enabled(),
        )

    class Watch:
        def due(self, progress: Progress) -> bool:
            if progress.step == 2:
                canary.model[1].eval()  # a part that is kept out of training stays out of it
            found.append(state())
            return True

    def after(event: Event) -> None:
        if isinstance(event, Validated):
            assert state() == found[-1]

    canary.on_event.append(after)
    canary.change(validate=validate, validate_every=Watch())
    canary.fit()
    assert len(seen) == STEPS
    assert not any(grad for grad, _ in seen)
    assert not any(training for _, modes in seen for training in modes)
    assert not canary.model[1].training
    assert canary.model[3].training


def test_a_validation_that_fails_leaves_the_modes_as_found(tmp_path: Path) -> None:
    canary = start(tmp_path, MemoryCheckpoints())

    def fail() -> Mapping[str, float]:
        raise OSError("no validation rows")

    canary.change(validate=fail)
    with pytest.raises(OSError, match="no validation rows"):
        canary.fit()
    assert all(module.training for module in canary.model.modules())


@pytest.mark.parametrize("every", [1, 3, 5])
def test_how_often_is_validated_changes_no_weight(every: int, tmp_path: Path) -> None:
    weights = []
    for name, setting in (("often", Setting(validate_every=every)), ("never", Setting(1000))):
        canary = start(tmp_path / name, MemoryCheckpoints(), setting)
        if name == "never":
            canary.change(validate_every=Every(1000))
        canary.fit()
        weights.append(canary.model.state_dict())
    for name, tensor in weights[0].items():
        assert torch.equal(tensor, weights[1][name])


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


# 9. Nothing in a step waits for the device.


class FakeScalar:
    """A number on a device: counts how often somebody waits for it."""

    waits: ClassVar[list[int]] = []

    def __init__(self, value: float) -> None:
        self._value = value

    def item(self) -> float:
        self.waits.append(1)
        return self._value


class DeviceStep:
    def __init__(self) -> None:
        self.waits_before: list[int] = []

    def __call__(self, work: StepBatches) -> StepOutcome:
        self.waits_before.append(len(FakeScalar.waits))
        scalars = [FakeScalar(value) for value in (0.5, 1.0, 0.0)]
        return StepOutcome(
            loss=scalars[0],
            learning_rate=0.1,
            gradient_norm=scalars[1],
            found_nonfinite=scalars[2],
            step_seconds=0.0,
            data_seconds=0.0,
            rows=work.rows,
            samples=work.samples,
            epoch=work.epoch,
        )


@pytest.mark.parametrize("window", [1, 10, 50])
def test_the_device_is_waited_for_once_a_window(window: int, tmp_path: Path) -> None:
    FakeScalar.waits.clear()
    groups: list[int] = []

    def read_together(numbers: Sequence[object]) -> list[float]:
        groups.append(len(numbers))
        return [getattr(number, "_value", 0.0) for number in numbers]

    step = DeviceStep()
    recorder = SignalRecorder(tmp_path / "signals.jsonl", window, read_together)
    job = Job(
        model=nn.Linear(1, 1),
        feed=Feed([torch.zeros(400, 1)], 1),
        step=step,
        stop_rules=(StepLimit(200),),
        guard=HaltOnNonFinite(window),
        observers=(recorder,),
    )
    assert fit(job).kind == "finished"
    assert groups == [4 * window] * (200 // window)
    steps_with_a_wait = [
        number
        for number, (before, after) in enumerate(
            zip(step.waits_before, [*step.waits_before[1:], len(FakeScalar.waits)], strict=True),
            start=1,
        )
        if after > before
    ]
    assert steps_with_a_wait == list(range(window, 201, window))
    assert len(FakeScalar.waits) == 2 * 200


@pytest.mark.parametrize("window", [1, 7, 50])
def test_a_number_that_is_read_late_still_ends_the_run(window: int) -> None:
    guard = HaltOnNonFinite(window)
    bad = 13
    for number in range(1, 101):
        loss = math.nan if number == bad else 0.5
        outcome = StepOutcome(FakeScalar(loss), 0.1, FakeScalar(1.0), 0.0, 0.0, 0.0, 1, number, 0)
        judgement = guard.judge(outcome)
        if type(judgement).__name__ == "Halt":
            break
    assert number == -(-bad // window) * window
    assert f"samples {bad - 1} to {bad - 1}" in judgement.why
