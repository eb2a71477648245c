"""The loop on a GPU: it waits for nothing between windows, and computes what a CPU does."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from command import CONTRACT, command, inside, write_project  # noqa: E402
from objectives import squared_error  # noqa: E402
from trainwright.checkpoint.states.module_state import ModuleState  # noqa: E402
from trainwright.checkpoint.states.optimizer_state import OptimizerState  # noqa: E402
from trainwright.checkpoint.states.random_state import RandomState  # noqa: E402
from trainwright.checkpoint.store import Checkpoints  # noqa: E402
from trainwright.contract.sections.training.training import Guard  # noqa: E402
from trainwright.data.loading.feed import Feed  # noqa: E402
from trainwright.engine.execution.precision import LossScale, build_precision  # noqa: E402
from trainwright.engine.guards.rollback import RollbackBackoff  # noqa: E402
from trainwright.engine.guards.step_guard import PolicyGuard  # noqa: E402
from trainwright.engine.job import Every, Job  # noqa: E402
from trainwright.engine.loop import fit  # noqa: E402
from trainwright.engine.signals.custom_signals import OwnSignals  # noqa: E402
from trainwright.engine.stopping.stop_rules import Patience, StepLimit  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.objective.losses import LossSum  # noqa: E402
from trainwright.optim.lr_schedule import cosine_with_warmup  # noqa: E402
from trainwright.optim.schedule import LearningRate  # noqa: E402
from trainwright.run.compose.compose_step import WINDOW, reader  # noqa: E402
from trainwright.testing.fakes import RecordingObserver  # noqa: E402
from trainwright.tracking.events import StepDropped, StepKept  # noqa: E402
from trainwright.tracking.signals import (  # noqa: E402
    SignalRecorder,
    read_own_signals,
    read_signals,
)

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda")
STEPS = 200


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(8, 64), nn.LayerNorm(64), nn.GELU(), nn.Dropout(0.0), nn.Linear(64, 1)
    )


def rows(device: torch.device) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    inputs = torch.randn(1024, 8, generator=draw)
    return inputs.to(device), torch.sin(inputs).sum(dim=1, keepdim=True).to(device)


def job(
    folder: Path,
    device: torch.device = DEVICE,
    precision: str = "fp32",
    model: nn.Module | None = None,
    store: Checkpoints | None = None,
) -> tuple[Job, RecordingObserver]:
    model = (model or network()).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
    feed = Feed(rows(device), 32, 2, seed=3)
    caution, seen = RollbackBackoff(optimizer, 0.5, 20), RecordingObserver()
    formats = build_precision(precision, model, device)
    scaled = isinstance(formats.scale, LossScale)
    window = WINDOW if device.type == "cuda" else 1
    guard = PolicyGuard(
        Guard(non_finite="skip"),
        caution,
        feed.rows_between,
        window=window,
        read=reader(device),
        scaled=scaled,
    )
    patience = Patience("val_loss", "min", math.inf)
    state: dict[str, Any] = {
        "model": ModuleState(model),
        "optimizer": OptimizerState(optimizer, model.named_parameters()),
        "random": RandomState(),
        "guard": guard,
        "caution": caution,
        "patience": patience,
    }
    if isinstance(formats.scale, LossScale):
        state["scaler"] = formats.scale
    folder.mkdir(parents=True, exist_ok=True)
    recorder = SignalRecorder(folder / "signals.jsonl", WINDOW, reader(device))
    built = Job(
        model=model,
        feed=feed,
        step=OptimizerStep(model, squared_error, optimizer, max_norm=1.0, precision=formats),
        knobs=(LearningRate(optimizer, cosine_with_warmup(STEPS, 10, 0.01)), caution),
        guard=guard,
        stop_rules=(StepLimit(STEPS),),
        state=state,
        observers=(recorder, seen),
        patience=patience,
        **({} if store is None else {"checkpoints": store, "checkpoint_every": Every(20)}),
    )
    return built, seen


def until(built: Job, step: int) -> None:
    fit(replace(built, stop_rules=(StepLimit(step),)))


def losses(seen: RecordingObserver) -> list[float]:
    return [float(e.outcome.loss) for e in seen.events if isinstance(e, StepKept)]


@contextmanager
def waiting_is_an_error() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_between_two_windows_nothing_waits_for_the_device(precision: str, tmp_path: Path) -> None:
    built, seen = job(tmp_path, precision=precision)
    once, _ = job(tmp_path / "warm", precision=precision)
    until(once, 3)  # kernels are loaded, and moving buffers are found, at the first step
    step = built.step
    step(built.feed.next_step())
    with waiting_is_an_error():
        until(built, WINDOW - 2)
    assert len(losses(seen)) == WINDOW - 2


def test_own_signals_wait_for_nothing(tmp_path: Path) -> None:
    built, _ = job(tmp_path)
    own = OwnSignals()

    def naming(model: nn.Module, batch: tuple[torch.Tensor, ...]) -> LossSum:
        loss = squared_error(model, batch)
        for number in range(10):
            own(f"share_{number}", loss.sum * number, loss.targets)
        return loss

    assert isinstance(built.step, OptimizerStep)
    built.step._objective = naming
    built.step.recording(own)
    built.step(built.feed.next_step())
    with waiting_is_an_error():
        until(built, WINDOW - 2)
    built.observers[0].flush()
    signals = tmp_path / "signals.jsonl"
    named, loss = read_own_signals(signals), read_signals(signals)["loss"]
    assert list(named["share_1"].values()) == pytest.approx(loss, rel=1e-6)
    assert list(named["share_9"].values()) == pytest.approx([9 * one for one in loss], rel=1e-5)


def test_the_losses_are_those_of_a_cpu(tmp_path: Path) -> None:
    on_device, seen = job(tmp_path / "gpu")
    fit(on_device)
    on_host, host = job(tmp_path / "cpu", torch.device("cpu"))
    fit(on_host)
    assert losses(seen)[:50] == pytest.approx(losses(host)[:50], rel=1e-3)
    assert losses(seen)[-1] == pytest.approx(losses(host)[-1], rel=0.2)


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
def test_a_cut_run_ends_with_the_same_bits(precision: str, tmp_path: Path) -> None:
    whole, _ = job(tmp_path / "whole", precision=precision)
    fit(whole)
    for stop in (73, STEPS):
        store = Checkpoints(tmp_path / "cut" / "checkpoints", 1)
        built, _ = job(tmp_path / "cut", precision=precision, store=store)
        until(built, stop)
    for one, other in zip(built.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_number_that_is_not_finite_reaches_nothing(tmp_path: Path) -> None:
    built, seen = job(tmp_path)
    inputs, _ = built.feed._loader.store._tensors
    inputs[5, 3] = math.nan
    fit(built)
    dropped = [event for event in seen.events if isinstance(event, StepDropped)]
    assert dropped
    assert all(5 in event.rows for event in dropped)
    for snapshot in (built.state["model"].snapshot(), built.state["optimizer"].snapshot()):
        assert all(bool(t.isfinite().all()) for t in snapshot.tensors.values())


def test_fp16_finds_its_scale(tmp_path: Path) -> None:
    built, _ = job(tmp_path, precision="fp16")
    scale = built.state["scaler"]
    scale.restore(_scale_of(2.0**40))
    fit(built)
    assert 1.0 <= float(scale.on(DEVICE)) < 2.0**40


def _scale_of(value: float) -> Any:
    from trainwright.checkpoint.state import Snapshot

    tensors: Mapping[str, Tensor] = {
        "scale": torch.tensor(value),
        "calm": torch.tensor(0, dtype=torch.int32),
    }
    return Snapshot(tensors=tensors)


@pytest.mark.parametrize("kind", ["mlp", "tabular_resnet"])
def test_a_contract_comes_to_its_verdict(kind: str, tmp_path: Path) -> None:
    contract = CONTRACT.replace("kind: boosting", f"kind: {kind}").replace("  max_trees: 5\n", "")
    write_project(tmp_path, contract + "training: {num_epochs: 5}\n")
    with inside(tmp_path):
        ran = command("train", "small.yaml", "--run", "one")
        assert ran.code in (0, 3), ran.err
        assert "bf16" in Path("runs/one/plan.json").read_text()
        assert command("evaluate", "one").code in (0, 3)
