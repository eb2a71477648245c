"""The wiring of what makes and judges the updates of a network. Needs torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import nn

from trainwright.checkpoint.state import Stateful
from trainwright.contract.section import settled
from trainwright.contract.tracking import Tracking
from trainwright.contract.training import Training
from trainwright.data.feed import Feed
from trainwright.engine.caution import Caution
from trainwright.engine.clipping import build_clipping
from trainwright.engine.guard import PolicyGuard
from trainwright.engine.noise_scale import NoiseScale
from trainwright.engine.precision import LossScale, Precision, build_precision
from trainwright.engine.step import OptimizerStep, Step
from trainwright.engine.watching import StepRule, WatchedStep
from trainwright.engine.windows import Gauge
from trainwright.objective.losses import Objective
from trainwright.optim.optimizer import Optimizer
from trainwright.tracking.events import Number
from trainwright.tracking.signals import ReadScalars, read_each

WINDOW = 50
"""Steps whose numbers are read and written together."""


@final
@dataclass(frozen=True, slots=True)
class Trained:
    """A model, what it is to make small, and what changes it."""

    model: nn.Module
    objective: Objective
    optimizer: Optimizer

    @property
    def device(self) -> torch.device:
        """Where the model lies."""
        return next(self.model.parameters()).device


@final
@dataclass(frozen=True, slots=True)
class Stepping:
    """The step, the guard that judges it, the knob that the guard turns, what they remember, and
    what has numbers of them."""

    step: Step
    guard: PolicyGuard
    caution: Caution
    state: Mapping[str, Stateful]
    gauges: tuple[Gauge, ...]


def build_stepping(
    training: Training,
    trained: Trained,
    feed: Feed,
    rules: Sequence[StepRule],
    tracking: Tracking,
) -> Stepping:
    """Precision, clipping, step and guard of a plan; the step tells `rules` what it gave."""
    device = trained.device
    clipping = build_clipping(training.gradient_clipping)
    precision = build_precision(settled(training.mixed_precision), device)
    noise = _noise_scale(tracking, trained, precision)
    step: Step = OptimizerStep(
        trained.model,
        noise[0].objective(trained.objective) if noise else trained.objective,
        trained.optimizer,
        clipping=clipping,
        precision=precision,
    )
    section = training.guard
    if section.spike == "rollback" and not training.checkpointing.save_optimizer_state:
        # The default then; where it is written, a rule of the contract refuses it.
        section = section.model_copy(update={"spike": "ignore"})
    window = 1 if device.type == "cpu" else WINDOW
    factor, steps = section.learning_rate_factor, section.learning_rate_steps
    caution = Caution(trained.optimizer, factor, steps)
    guard = PolicyGuard(
        section,
        caution,
        feed.rows_between,
        window=window,
        read=reader(device),
        scaled=isinstance(precision.scale, LossScale),
    )
    state: dict[str, Stateful] = {"guard": guard, "caution": caution, "clipping": clipping}
    if isinstance(precision.scale, LossScale):
        state["scaler"] = precision.scale
    for scale in noise:
        state["noise_scale"] = scale
        step = scale.step(step)
    if rules:
        watched = WatchedStep(step, rules, window, reader(device))
        state["stop"] = watched
        step = watched
    return Stepping(step, guard, caution, state, noise)


def _noise_scale(
    tracking: Tracking, trained: Trained, precision: Precision
) -> tuple[NoiseScale, ...]:
    """What measures the gradient noise; nothing where that is off."""
    if tracking.windows == "off" or tracking.windows.noise_scale == "off":
        return ()
    parameters = [p for group in trained.optimizer.param_groups for p in group["params"]]
    return (NoiseScale(parameters, tracking.windows.noise_scale, scale=precision.scale),)


def reader(device: torch.device) -> ReadScalars:
    """How numbers of this device are read."""
    return read_each if device.type == "cpu" else _read_at_once


def _read_at_once(numbers: Sequence[Number]) -> list[float]:
    """Read what is still on the device in one go: each read by itself would wait for it."""
    scalars = [torch.as_tensor(number, dtype=torch.float64) for number in numbers]
    device = next((scalar.device for scalar in scalars if scalar.is_cuda), torch.device("cpu"))
    values: list[float] = torch.stack([scalar.to(device) for scalar in scalars]).tolist()
    return values
