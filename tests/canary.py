"""A small run with every kind of state in it, and a comparison of everything that it leaves.

The model has dropout, batch and layer norm; the objective draws from all three generators of random
numbers; AdamW, warm-up and cosine, clipping, patience. 22 rows in steps of 2 x 2: six steps an
epoch, the last of them short.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor, nn

from trainwright.checkpoint.background_save import BackgroundCheckpoints
from trainwright.checkpoint.states.copy_fence import Fence
from trainwright.checkpoint.states.module_state import ModuleState
from trainwright.checkpoint.states.optimizer_state import OptimizerState
from trainwright.checkpoint.states.random_state import RandomState
from trainwright.checkpoint.store import CheckpointStore
from trainwright.core.progress import StopFlag
from trainwright.data.loading.feed import Batch, Feed
from trainwright.engine.job import Every, Job
from trainwright.engine.loop import fit
from trainwright.engine.stopping.stop_rules import Patience, StepLimit, StopRequested, TimeLimit
from trainwright.engine.update.step import OptimizerStep
from trainwright.objective.losses import LossSum
from trainwright.optim.lr_schedule import cosine_with_warmup
from trainwright.optim.schedule import LearningRate
from trainwright.testing.fakes import MemoryCheckpoints, RecordingObserver
from trainwright.tracking.event_log import EventLog
from trainwright.tracking.events import Ended, Event, Resumed, StepKept
from trainwright.tracking.signals import SignalRecorder, read_signals

ROWS = 22
STEPS_PER_EPOCH = 6
STEPS = 2 * STEPS_PER_EPOCH
SIGNALS_OF_THE_STEP = ("step", "epoch", "loss", "learning_rate", "gradient_norm", "nonfinite")


class Killed(Exception):
    """The process dies here."""


@dataclass(frozen=True)
class Setting:
    """What varies between canaries. With `stops_early` the watched value is best at step 5 and
    patience ends the run at step 8."""

    stops_early: bool = False
    checkpoint_every: int = 1
    validate_every: int = 2
    steps: int = STEPS


@dataclass
class Canary:
    """One process: objects that are built anew for each start of the run."""

    job: Job
    feed: Feed
    model: nn.Module
    optimizer: torch.optim.Optimizer
    flag: StopFlag
    seen: RecordingObserver
    signals: Path
    on_event: list[Callable[[Event], None]] = field(default_factory=list)
    on_forward: list[Callable[[], None]] = field(default_factory=list)

    def observe(self, event: Event) -> None:
        for react in self.on_event:
            react(event)

    def fit(self) -> Ended:
        return fit(self.job)

    def change(self, **fields: object) -> None:
        self.job = replace(self.job, **fields)


def data() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(5)
    inputs = torch.randn(ROWS, 4, generator=draw)
    return inputs, torch.sin(3 * inputs).sum(dim=1)


def network() -> nn.Module:
    return nn.Sequential(
        nn.Linear(4, 8),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.LayerNorm(8),
        nn.Linear(8, 1),
    )


def start(
    folder: Path, store: CheckpointStore, setting: Setting = Setting(), process: int = 0
) -> Canary:
    """A process that is about to call `fit`. Each process starts from other random numbers, so what
    is equal at the end was restored."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(process)
    random.seed(process)
    np.random.seed(process)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.01, fused=True)
    inputs, targets = data()
    on_forward: list[Callable[[], None]] = []

    def objective(model: nn.Module, batch: Batch) -> LossSum:
        for react in on_forward:
            react()
        x, y = batch
        noise = 0.1 * random.random() + 0.1 * float(np.random.rand())
        return LossSum((model(x).squeeze(1) - y - noise).square().sum(), len(y))

    def validate() -> Mapping[str, float]:
        loss = (model(inputs).squeeze(1) - targets).square().mean()
        random.random()
        np.random.rand()
        torch.rand(1)
        made = float(optimizer.state[model[0].weight]["step"])
        return {"val_loss": float(loss), "val_early": abs(made - 5.0)}

    watch = "val_early" if setting.stops_early else "val_loss"
    patience = Patience(watch, "min", 3 if setting.stops_early else math.inf)
    clock, flag, seen = TimeLimit(1e9, "the budget"), StopFlag(), RecordingObserver()
    feed = Feed([inputs.clone(), targets.clone()], 2, 2, seed=11)
    signals = folder / "signals.jsonl"
    canary = Canary(
        job=Job(
            model=model,
            feed=feed,
            step=OptimizerStep(model, objective, optimizer, max_norm=1.0),
            knobs=(LearningRate(optimizer, cosine_with_warmup(STEPS, 3, 0.01)),),
            stop_rules=(StepLimit(setting.steps), patience, clock, StopRequested(flag)),
            state={
                "model": ModuleState(model),
                "optimizer": OptimizerState(optimizer, model.named_parameters()),
                "random": RandomState(),
                "patience": patience,
                "clock": clock,
            },
            validate=validate,
            validate_every=Every(1 if setting.stops_early else setting.validate_every),
            patience=patience,
            checkpoints=store,
            checkpoint_every=Every(setting.checkpoint_every),
        ),
        feed=feed,
        model=model,
        optimizer=optimizer,
        flag=flag,
        seen=seen,
        signals=signals,
        on_forward=on_forward,
    )
    observers = (SignalRecorder(signals, 5), EventLog(folder / "events.jsonl"), seen, canary)
    canary.change(observers=observers)
    return canary


def start_in_background(
    folder: Path, store: CheckpointStore, setting: Setting = Setting(), process: int = 0
) -> Canary:
    """The same with saves that are written while it goes on."""
    fence = Fence()
    canary = start(folder, BackgroundCheckpoints(store, fence), setting, process)
    wait_at(fence, canary)
    return canary


STARTS: Mapping[str, Callable[..., Canary]] = {
    "in turn": start,
    "in the background": start_in_background,
}


def wait_at(fence: Fence, canary: Canary) -> None:
    """Let its step wait there before it updates."""
    assert isinstance(canary.job.step, OptimizerStep)
    canary.job.step.waiting_for(fence.wait)


def everything(canary: Canary, ended: Ended) -> dict[str, object]:
    """Each component of a run's end by name: bits of tensors, values, cursor, signals. Only the
    clock is left out."""
    found: dict[str, object] = {
        "ending": (ended.kind, ended.reason),
        "progress": ended.progress,
        "cursor": canary.feed.samples,
        "training mode": [module.training for module in canary.model.modules()],
    }
    for part, stateful in canary.job.state.items():
        if part == "clock":
            continue
        snapshot = stateful.snapshot()
        found[f"{part} values"] = snapshot.packed_values
        for name, tensor in snapshot.tensors.items():
            found[f"{part} {name}"] = (tensor.dtype, tensor.shape, tensor.numpy().tobytes())
    columns = read_signals(canary.signals)
    for name in SIGNALS_OF_THE_STEP:
        found[f"signal {name}"] = [value.hex() for value in columns[name]]
    return found


@cache
def unbroken(setting: Setting) -> Mapping[str, object]:
    """Everything of a run that is left alone."""
    with TemporaryDirectory() as folder:
        canary = start(Path(folder), MemoryCheckpoints(), setting)
        return everything(canary, canary.fit())


def journal(canary: Canary) -> dict[int, tuple[str, ...]]:
    """What this process itself saw of each step, as hexadecimal numbers."""
    kept = [event for event in canary.seen.events if isinstance(event, StepKept)]
    assert len({event.progress.step for event in kept}) == len(kept)
    return {
        event.progress.step: (
            float(event.outcome.loss).hex(),
            float(event.outcome.gradient_norm).hex(),
            event.outcome.learning_rate.hex(),
            str(event.outcome.samples),
        )
        for event in kept
    }


def resumed_from(canary: Canary) -> int:
    """The step at which this process went on; -1 if it began."""
    steps = [event.progress.step for event in canary.seen.events if isinstance(event, Resumed)]
    return steps[0] if steps else -1
