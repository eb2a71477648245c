"""Rehearsal: a few training steps beforehand, to time them on this machine. Needs torch.

They are the run's own steps, with its feed, guard, signals and checkpoints, in a temporary folder;
the run itself starts from its initial weights.
"""

from __future__ import annotations

import io
import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import final

import torch
from torch import nn

from trainwright.checkpoint.states.random_state import RandomState
from trainwright.contract.document import Contract
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training.optimizer import Ramps
from trainwright.core.faultpoints import disarmed
from trainwright.core.progress import Progress, StopFlag
from trainwright.data.base.inputs import Floats, Part
from trainwright.data.loading.feed import Feed
from trainwright.data.subsample import sampled
from trainwright.data.types import Prepared
from trainwright.engine.job import Never, NoValidation
from trainwright.engine.loop import fit
from trainwright.engine.stopping.stop_rules import StopReason
from trainwright.model.build_network import build_network
from trainwright.model.families import network_family
from trainwright.model.family import MemoryFormat
from trainwright.model.input_shape import shape_of
from trainwright.objective.build_objective import build_loss
from trainwright.objective.losses import Objective
from trainwright.planner.plan import Plan
from trainwright.run.compose.compose_feed import (
    build_feed,
    build_objective,
    class_rows,
    with_projection,
    with_workers,
)
from trainwright.run.compose.compose_job import Composed, compose
from trainwright.run.compose.compose_step import kernels
from trainwright.run.run_context import RunContext
from trainwright.run.screen import StreamScreen
from trainwright.run.trial.tree_times import StepTimes
from trainwright.tracking.events import Event, StepKept
from trainwright.tracking.run_folder import RunFolder

_MOST_STEPS, _FIRST_ROWS, _GROWTH, _VERY_LONG = 100, 16, 4, 5.0


@final
@dataclass(frozen=True, slots=True)
class Rehearsed:
    """Network with its initial weights, and its objective. `contract` has no ramps: their steps
    start small, whereas most of the run uses full batches."""

    contract: Contract
    prepared: Prepared
    model: nn.Module
    objective: Objective
    device: torch.device

    def lay_out(self, memory_format: MemoryFormat) -> None:
        """Set the memory layout of the network."""
        network_family(self.contract.model).lay_out(self.model, memory_format)

    def feed(self, workers: int) -> Feed:
        """Training batches, made by this many processes."""
        return build_feed(with_workers(self.contract, workers), self.prepared, self.device)


def build_rehearsed(plan: Plan, prepared: Prepared, device: torch.device) -> Rehearsed:
    """Network and batches of a plan. Random numbers are preserved."""
    contract = plan.contract
    section = contract.model
    numbers = RandomState().snapshot()
    torch.manual_seed(contract.seed)
    network = build_network(section, shape_of(prepared))
    model = with_projection(contract, network, prepared).to(device)
    RandomState().restore(numbers)
    quantiles = prepared.target.quantiles
    width = section.embedding_width if contract.data.is_one_way else 0
    several = bool(prepared.target.target_names)
    rows = class_rows(prepared)
    loss = build_loss(contract.training.loss, rows, device, quantiles, width, several=several)
    whole = contract.training.model_copy(update={"ramps": Ramps()})
    contract = contract.model_copy(update={"training": whole})
    return Rehearsed(contract, prepared, model, build_objective(contract, loss), device)


def time_steps(plan: Plan, prepared: Prepared, seconds: float) -> StepTimes:
    """Run steps for about this many seconds, and a validation of some rows for as many. Random
    numbers are preserved."""
    numbers = RandomState().snapshot()
    section, contract = plan.contract.model, _without_ramps(plan.contract)
    assert isinstance(section, ModelSection), "only networks have steps"
    few = replace(plan, contract=contract)
    try:
        with TemporaryDirectory(prefix="trainwright-") as where, kernels(contract), disarmed():
            folder = RunFolder.create(Path(where), "rehearsal")
            run = RunContext(folder, (), StreamScreen(io.StringIO()), StopFlag())
            started = time.perf_counter()
            composed = compose(section, few, prepared, run)
            composing = time.perf_counter() - started
            times = _measure(composed, few, prepared, seconds)
            return replace(times, start=times.start + composing)
    finally:
        RandomState().restore(numbers)


def _measure(composed: Composed, plan: Plan, prepared: Prepared, seconds: float) -> StepTimes:
    job = composed.job
    pace = _Pace(next(job.model.parameters()).device, seconds)
    job = replace(
        job,
        stop_rules=(pace,),
        observers=(*job.observers, pace),
        validate=NoValidation(),
        validate_every=Never(),
        checkpoint_every=Never(),
    )
    with composed.saving.copying, closing(composed.feed):
        fit(job)
    save = pace.ending
    part, scores, row = _score(composed, prepared, plan.contract.seed, seconds)
    passes = 2 if part.inputs.second_pass else 1
    return StepTimes(pace.step, pace.start, save, passes * row, row, part, scores)


def _score(
    composed: Composed, prepared: Prepared, seed: int, seconds: float
) -> tuple[Part, Floats, float]:
    """Validation rows that can be scored in about this many seconds, their scores, and the seconds
    per row."""
    rows = _FIRST_ROWS
    composed.job.model.eval()
    while True:
        part = sampled(prepared.validation, rows, seed)
        started = time.perf_counter()
        scores = composed.scorer.score(part.inputs)
        took = time.perf_counter() - started
        if took * _GROWTH > seconds or len(part) == len(prepared.validation):
            return part, scores, took / len(part)
        rows *= _GROWTH


def _without_ramps(contract: Contract) -> Contract:
    """The contract with typical steps, and nothing that reaches beyond the machine."""
    training = contract.training
    checkpointing = training.checkpointing.model_copy(update={"remote": "off"})
    # Other ranks, if there are some, wait meanwhile: these are the micro-batches of one of them.
    rows = settled(training.effective_batch_size) // settled(contract.distributed.num_gpus)
    steady = training.model_copy(
        update={
            "ramps": Ramps(),
            "checkpointing": checkpointing,
            "effective_batch_size": rows,
        }
    )
    alone = contract.distributed.model_copy(update={"strategy": "single", "num_gpus": 1})
    return contract.model_copy(update={"training": steady, "distributed": alone})


@final
class _Pace:
    """Ends a rehearsal, and records when each of its steps was done: observer and stop rule."""

    def __init__(self, device: torch.device, seconds: float) -> None:
        self._device = device
        self._seconds = seconds
        self._began = time.perf_counter()
        self._moments: list[float] = []

    def observe(self, event: Event) -> None:
        """A step is done when the device has done it."""
        if isinstance(event, StepKept):
            if self._device.type == "cuda":
                torch.cuda.synchronize(self._device)
            self._moments.append(time.perf_counter())

    def reason(self, progress: Progress) -> StopReason | None:
        """Ends after enough steps or seconds. The first step includes a warm-up, so another follows
        it, unless it took very long."""
        if not self._moments:
            is_enough = progress.attempted > _MOST_STEPS
        else:
            first, last = self._moments[0] - self._began, self._moments[-1] - self._moments[0]
            is_enough = len(self._moments) > _MOST_STEPS or last > self._seconds
            is_enough |= first > _VERY_LONG * self._seconds
        return StopReason("finished", "measured") if is_enough else None

    @property
    def step(self) -> float:
        """Seconds per step after the first one."""
        if len(self._moments) < 2:
            return self._first
        return (self._moments[-1] - self._moments[0]) / (len(self._moments) - 1)

    @property
    def start(self) -> float:
        """Seconds of the first checkpoint, and of the warm-up of the first step."""
        return max(0.0, self._first - self.step)

    @property
    def ending(self) -> float:
        """Seconds since the last step."""
        return time.perf_counter() - (self._moments or [self._began])[-1]

    @property
    def _first(self) -> float:
        return (self._moments or [time.perf_counter()])[0] - self._began
