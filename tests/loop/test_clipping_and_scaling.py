"""Clipping and loss scaling in the loop: signals, resume, and their products with the guard."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from canary import STEPS, Canary, Setting, everything, start  # noqa: E402
from comparing import differences  # noqa: E402
from cuts import stepwise  # noqa: E402
from faults.tiers import each  # noqa: E402
from held import Held  # noqa: E402
from stepwise import steps_that_differ  # noqa: E402
from trainwright.checkpoint.store import Checkpoints  # noqa: E402
from trainwright.contract.sections.training.optimizer import (  # noqa: E402
    AutoClip,
    ByValue,
    GradientClipping,
    ZClip,
)
from trainwright.contract.sections.training.training import Guard  # noqa: E402
from trainwright.data.loading.feed import StepBatches  # noqa: E402
from trainwright.engine.execution.precision import Autocast, Full, LossScale  # noqa: E402
from trainwright.engine.guards.rollback import RollbackBackoff  # noqa: E402
from trainwright.engine.guards.step_guard import PolicyGuard  # noqa: E402
from trainwright.engine.update.gradient_clipping import build_clipping  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.objective.losses import LossSum  # noqa: E402
from trainwright.testing.fakes import MemoryCheckpoints  # noqa: E402
from trainwright.tracking.events import Event, RolledBack, StepDropped, StepKept  # noqa: E402
from trainwright.tracking.signals import read_signals  # noqa: E402

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")
ZCLIP = ZClip(kind="zclip", warmup_steps=3, z=0.5)
AUTOCLIP = AutoClip(kind="autoclip", percentile=50)
SETTING = Setting(checkpoint_every=3)


def changed(
    canary: Canary,
    clipping: GradientClipping = "off",
    fp16: bool = False,
    policy: str = "raise",
    bad_samples: range = range(0),
) -> Canary:
    """The canary with other clipping, fp16, a guard, and infinite gradients for some samples."""
    built = build_clipping(clipping)
    precision = Autocast(CPU, torch.float16) if fp16 else Full()
    if isinstance(precision.scale, LossScale):
        precision.scale.restore(LossScale(1024.0, interval=4).snapshot())
        precision.scale._interval = 4
    section = Guard(non_finite=policy)
    caution = RollbackBackoff(canary.optimizer, 0.5, 3)
    scaled = isinstance(precision.scale, LossScale)
    guard = PolicyGuard(section, caution, canary.feed.rows_between, scaled=scaled)
    inner = canary.job.step._objective

    def objective(model: nn.Module, batch: tuple[torch.Tensor, ...]) -> LossSum:
        loss, count = inner(model, batch)
        if canary.feed.samples - 1 in bad_samples:
            loss.register_hook(lambda gradient: gradient * math.inf)
        return LossSum(loss, count)

    step = OptimizerStep(
        canary.model, objective, canary.optimizer, clipping=built, precision=precision
    )
    state = {**canary.job.state, "clipping": built, "guard": guard, "caution": caution}
    if isinstance(precision.scale, LossScale):
        state["scaler"] = precision.scale
    canary.change(step=step, guard=guard, state=state, knobs=(*canary.job.knobs, caution))
    return canary


def of_kind(canary: Canary, kind: type) -> list[Event]:
    return [event for event in canary.seen.events if isinstance(event, kind)]


CASES = {
    "zclip": {"clipping": ZCLIP},
    "autoclip": {"clipping": AUTOCLIP},
    "value": {"clipping": ByValue(kind="value", max_value=0.1)},
    "fp16": {"fp16": True},
    "fp16 and a skipped step": {"fp16": True, "bad_samples": range(16, 20)},
    "fp16, zclip and a skipped step": {
        "fp16": True,
        "clipping": ZCLIP,
        "bad_samples": range(16, 20),
    },
}


@pytest.mark.parametrize("case", CASES)
def test_every_step_follows_from_the_checkpoint_before_it(case: str, tmp_path: Path) -> None:
    def begin(folder: Path, store: MemoryCheckpoints, setting: Setting, process: int) -> Canary:
        return changed(start(folder, store, setting, process), **CASES[case])

    assert steps_that_differ(stepwise(tmp_path, Setting(), begin=begin)) == {}


@pytest.mark.row("F-29")
@pytest.mark.parametrize("cut", each(3, [2, 3, 4, 5, 9], start=1))
@pytest.mark.parametrize("case", CASES)
def test_a_cut_run_ends_with_the_same_bits(case: str, cut: int, tmp_path: Path) -> None:
    def begin(name: str, process: int = 0) -> Canary:
        store = Checkpoints(tmp_path / name / "ckpt", 99)
        return changed(start(tmp_path / name, store, SETTING, process), **CASES[case])

    whole = begin("whole")
    expected = everything(whole, whole.fit())
    assert whole.job.guard is whole.job.state["guard"]
    first = begin("cut")

    def stop(event: Event) -> None:
        if isinstance(event, StepKept) and event.progress.step == cut:
            first.flag.raise_flag("SIGTERM")

    first.on_event.append(stop)
    assert first.fit().kind == "interrupted"
    second = begin("cut", process=9)
    assert differences(everything(second, second.fit()), expected) == []


@pytest.mark.parametrize("clipping", [ZCLIP, AUTOCLIP, 5.0])
def test_whether_it_clipped_is_a_signal(clipping: GradientClipping, tmp_path: Path) -> None:
    canary = changed(start(tmp_path, MemoryCheckpoints()), clipping)
    canary.fit()
    clipped = read_signals(canary.signals)["clipped"]
    assert set(clipped) == {0.0, 1.0}
    norms = read_signals(canary.signals)["gradient_norm"]
    if clipping == 5.0:
        assert clipped == [float(norm > 5.0) for norm in norms]


# The scale behaves as torch's own.


def test_the_factor_moves_as_that_of_torchs_scaler() -> None:
    ours = LossScale(64.0, interval=3)
    theirs = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=3)
    parameter = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    draw = torch.Generator().manual_seed(0)
    ours.on(CPU)
    for _ in range(60):
        bad = float(torch.rand((), generator=draw)) < 0.2
        optimizer.zero_grad()
        theirs.scale((parameter * (math.inf if bad else 1.0)).sum()).backward()
        theirs.step(optimizer)
        theirs.update()
        ours.adapt(1.0 if bad else 0.0)
        assert float(ours.on(CPU)) == theirs.get_scale()


def test_overflows_without_end_leave_a_factor_to_divide_by() -> None:
    scale = LossScale()
    for _ in range(3000):
        scale.adapt(1.0)
    assert float(scale.on(CPU)) == 2.0**-16


def test_a_scaled_step_is_the_step_that_is_not(tmp_path: Path) -> None:
    """In fp32 a factor that is a power of two is exact: the same bits with and without it."""
    plain = changed(start(tmp_path / "plain", MemoryCheckpoints()), clipping=0.5)
    expected = everything(plain, plain.fit())
    scaled = changed(start(tmp_path / "scaled", MemoryCheckpoints()), clipping=0.5)
    scaled.job.step._scale = LossScale(4096.0)
    assert differences(everything(scaled, scaled.fit()), expected) == []


def test_a_scaled_step_on_a_device_is_that_of_the_host(tmp_path: Path) -> None:
    torch.manual_seed(0)
    models = [nn.Linear(4, 1), nn.Linear(4, 1)]
    models[1].load_state_dict(copy.deepcopy(models[0].state_dict()))
    steps, scales = [], []
    for model, strategy in zip(models, (None, Held()), strict=True):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
        precision = Autocast(CPU, torch.float16)
        scales.append(precision.scale)
        objective = start(tmp_path, MemoryCheckpoints()).job.step._objective
        steps.append(
            OptimizerStep(
                model,
                lambda net, batch: LossSum(
                    (net(batch[0]).float().squeeze(1) - batch[1]).square().sum(), len(batch[0])
                ),
                optimizer,
                max_norm=0.5,
                precision=precision,
                strategy=strategy,
            )
        )
    assert objective is not None
    for number in range(12):
        x, y = torch.randn(8, 4), torch.randn(8)
        if number in (4, 5):
            x[0, 0] = math.inf
        work = StepBatches([(x, y)], 8, 8, 8 * (number + 1), 0, 0.0)
        outcomes = [step(work) for step in steps]
        assert float(outcomes[0].found_nonfinite) == float(outcomes[1].found_nonfinite)
        assert float(outcomes[0].gradient_norm) == pytest.approx(
            float(outcomes[1].gradient_norm), rel=1e-6, nan_ok=True
        )
        assert float(scales[0].on(CPU)) == float(scales[1].on(CPU))
        assert torch.allclose(models[0].weight, models[1].weight, rtol=0, atol=1e-7)


@pytest.mark.row("F-28")
def test_an_overflow_skips_the_step_halves_the_factor_and_holds_the_schedule(
    tmp_path: Path,
) -> None:
    canary = changed(start(tmp_path, MemoryCheckpoints()), fp16=True, bad_samples=range(16, 20))
    scale = canary.job.state["scaler"]
    seen: list[float] = []
    canary.on_event.append(lambda event: seen.append(float(scale.on(CPU))))
    ended = canary.fit()
    assert (ended.kind, ended.progress.step, ended.progress.attempted) == (
        "finished",
        STEPS,
        STEPS + 1,
    )
    assert len(of_kind(canary, StepDropped)) == 1
    assert 1024.0 in seen
    assert min(seen) == 1024.0  # doubled after four calm steps, then halved once
    assert max(seen) > 2048.0


@pytest.mark.row("F-28")
def test_overflows_without_end_halt(tmp_path: Path) -> None:
    canary = changed(start(tmp_path, MemoryCheckpoints()), fp16=True, bad_samples=range(10**6))
    ended = canary.fit()
    assert (ended.kind, ended.progress.step) == ("halted", 0)
    assert "20 in a row did not fit the number format" in ended.reason
    assert float(canary.job.state["scaler"].on(CPU)) == 1024.0 / 2**20


def test_a_rollback_leaves_the_factor_as_it_is(tmp_path: Path) -> None:
    """The factor says what fits now; a rewound one would overflow again."""
    canary = changed(
        start(tmp_path, MemoryCheckpoints(), SETTING),
        fp16=True,
        policy="rollback",
        bad_samples=range(16, 100),
    )
    factors: list[float] = []

    def watch(event: Event) -> None:
        if isinstance(event, RolledBack):
            factors.append(float(canary.job.state["scaler"].on(CPU)))

    canary.on_event.append(watch)
    canary.fit()
    assert factors
    assert factors[0] == 2048.0 / 2**20
