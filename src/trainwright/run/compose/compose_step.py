"""Builds the step of a network and the guard that judges it. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

import torch

from trainwright.checkpoint.state import Stateful, merge_state
from trainwright.contract.document import Contract
from trainwright.contract.sections.run_settings import Determinism, Tracking
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training.training import Training
from trainwright.engine.execution.compile import CompiledObjective, compiling
from trainwright.engine.execution.kernel_settings import deterministic, matrix_products
from trainwright.engine.execution.precision import LossScale, Precision, build_precision
from trainwright.engine.guards.rollback import RollbackBackoff
from trainwright.engine.guards.spike_detection import MOST_STEPS
from trainwright.engine.guards.step_guard import OF_CONTRACTS, PolicyGuard, StepGuard
from trainwright.engine.job import OutcomeObserver
from trainwright.engine.save_interval import Due
from trainwright.engine.signals.network_inspection import Probe
from trainwright.engine.signals.noise_scale import NoiseScale
from trainwright.engine.signals.telemetry import Gauge
from trainwright.engine.stopping.metric_stop_rules import MetricStopRules, StepRule
from trainwright.engine.update.gradient_cache import GradientCache
from trainwright.engine.update.gradient_clipping import build_clipping
from trainwright.engine.update.oom_policy import AlsoAfterSplit, MemoryGuard, SplitOnOutOfMemory
from trainwright.engine.update.optimizer_in_backward import InBackwardStep
from trainwright.engine.update.step import OptimizerStep, Step
from trainwright.objective.losses import Objective
from trainwright.run.compose.compose_feed import StepRows
from trainwright.run.compose.compose_memory import (
    ModelParts,
    build_guard_of_memory,
    build_memory_policy,
    build_whole_step,
    offloaded,
)
from trainwright.tracking.events import Event, Number
from trainwright.tracking.signals import ReadScalars, read_each

WINDOW = 50
"""Steps whose numbers are read and written together."""


@contextmanager
def kernels(contract: Contract) -> Iterator[None]:
    """Apply the kernel settings of a resolved contract inside the block, and restore them
    afterwards."""
    training = contract.training
    level: Determinism = settled(contract.resume.determinism)
    compute = training.compute
    tf32 = training.mixed_precision == "tf32"
    products = matrix_products("tf32" if tf32 else settled(compute.matrix_products))
    compiles = compute.compile == "on"
    compiler = compiling("on" if compiles else "off")
    with deterministic(level, compiled=compiles), products, compiler:
        yield


@final
@dataclass(frozen=True, slots=True)
class Stepping:
    """The step and what observes its outcomes, its guard, the guard's schedule, their state and
    their gauges."""

    step: Step
    outcome_observers: tuple[OutcomeObserver, ...]
    guard: StepGuard
    caution: RollbackBackoff
    state: Mapping[str, Stateful]
    gauges: tuple[Gauge, ...]
    probes: tuple[Probe, ...]
    memory: SplitOnOutOfMemory

    def saved(self, every: Due) -> Due:
        """Save schedule: for certain steps of the guard, and otherwise `every`."""
        return AlsoAfterSplit(every, self.memory)


def build_stepping(
    contract: Contract,
    trained: ModelParts,
    rows: StepRows,
    rules: Sequence[StepRule],
    tell: Callable[[Event], object],
    before_update: Callable[[], object],
) -> Stepping:
    """Build precision, clipping, step and guard of a plan, with `rules` updated by outcomes.
    The step sends a notice to `tell` when memory runs out, and waits for `before_update`."""
    training, device = contract.training, trained.device
    clipping = build_clipping(training.gradient_clipping)
    precision = build_precision(settled(training.mixed_precision), trained.model, device)
    noise = _noise_scale(contract.tracking, trained, precision)
    objective, probes = _build_objective(training, trained, noise)
    memory = build_memory_policy(training, trained, tell)
    guard, caution = _build_guard(training, trained, rows, isinstance(precision.scale, LossScale))
    step = build_whole_step(training.memory, trained, objective, clipping, precision)
    if isinstance(trained.objective, GradientCache):
        step = _looking_ahead(step, trained.objective)
    step.waiting_for(before_update).handling_memory(memory).dropping_above(guard.limit)
    # Ranks that divide a model drop other positions, features and heads.
    step.drawing_by(contract.seed + 2**32 * trained.strategy.part)
    own: dict[str, Stateful] = {
        "guard": guard,
        "watch": guard.watch,
        "caution": caution,
        "clipping": clipping,
        "memory": memory,
    }
    state = merge_state(own, _state_of(precision))
    observers: tuple[OutcomeObserver, ...] = noise
    for scale in noise:
        state = merge_state(state, {"noise_scale": scale})
    if rules:
        updated = MetricStopRules(rules, _window(device), reader(device))
        state = merge_state(state, {"stop": updated})
        observers = (*noise, updated)
    judge = MemoryGuard(build_guard_of_memory(training.memory, guard), memory)
    return Stepping(step, observers, judge, caution, state, noise, probes, memory)


def _looking_ahead(step: OptimizerStep | InBackwardStep, cache: GradientCache) -> OptimizerStep:
    """The step, with the cache of its objective."""
    assert isinstance(step, OptimizerStep), "the rules refuse the other"
    return step.looking_ahead(cache.look_ahead)


def _state_of(precision: Precision) -> dict[str, Stateful]:
    """State of a precision."""
    return {"scaler": precision.scale} if isinstance(precision.scale, LossScale) else {}


def _build_objective(
    training: Training, trained: ModelParts, noise: Sequence[NoiseScale]
) -> tuple[Objective, tuple[Probe, ...]]:
    """Objective with compilation, activation offloading and noise-scale measurement."""
    objective = trained.objective
    probes: tuple[Probe, ...] = ()
    if training.compute.compile == "on":
        objective = compiled = CompiledObjective(objective)
        probes = (compiled,)
    objective = offloaded(objective, training.memory, trained.model)
    for scale in noise:
        objective = scale.objective(objective)
    return objective, probes


def _build_guard(
    training: Training, trained: ModelParts, rows: StepRows, scaled: bool
) -> tuple[PolicyGuard, RollbackBackoff]:
    """Guard of a plan, and the learning-rate reduction after a rollback."""
    section, device = training.guard, trained.device
    if section.spike == "rollback" and not training.checkpointing.save_optimizer_state:
        # This is the default then; a rule of the contract refuses it if explicit.
        section = section.model_copy(update={"spike": "ignore"})
    factor, steps = section.learning_rate_factor, section.learning_rate_steps
    caution = RollbackBackoff(trained.optimizer, factor, steps)
    guard = PolicyGuard(
        section,
        caution,
        rows.between,
        window=_window(device),
        read=reader(device),
        scaled=scaled,
        rows_named=rows.named,
        advice=OF_CONTRACTS,
    )
    return guard, caution


def _noise_scale(
    tracking: Tracking, trained: ModelParts, precision: Precision
) -> tuple[NoiseScale, ...]:
    """Gradient noise scale, if it is on."""
    if tracking.windows == "off" or tracking.windows.noise_scale == "off":
        return ()
    parameters = [p for group in trained.optimizer.param_groups for p in group["params"]]
    return (
        NoiseScale(
            parameters,
            tracking.windows.noise_scale,
            scale=precision.scale,
            strategy=trained.strategy,
        ),
    )


def _window(device: torch.device) -> int:
    """Steps whose numbers are judged together; 1 where reading is free."""
    return 1 if device.type == "cpu" else WINDOW


def longest_rollback(device: torch.device) -> int:
    """Largest number of steps that the guard undoes at once."""
    return _window(device) - 1 + MOST_STEPS


def reader(device: torch.device) -> ReadScalars:
    """How numbers are read from this device."""
    return read_each if device.type == "cpu" else _read_at_once


def _read_at_once(numbers: Sequence[Number]) -> list[float]:
    """Read everything still on the device in one transfer: each single read would synchronise."""
    if not numbers:
        return []
    scalars = [torch.as_tensor(number, dtype=torch.float64) for number in numbers]
    device = next((scalar.device for scalar in scalars if scalar.is_cuda), torch.device("cpu"))
    values: list[float] = torch.stack([scalar.to(device) for scalar in scalars]).tolist()
    return values
