"""Builds optimizer, schedules, freezing, averages and evaluation weights of a run. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import assert_never, final

from torch import nn

from trainwright.checkpoint.state import Stateful, merge_state
from trainwright.checkpoint.states.average_state import EMAState, PlateauState, SWAState
from trainwright.checkpoint.states.eval_weights_state import MODEL, evaluated_state
from trainwright.checkpoint.states.module_state import ModuleState
from trainwright.checkpoint.states.optimizer_state import OptimizerState
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training.scheduler import Average, Ema, Swa
from trainwright.contract.sections.training.training import Training
from trainwright.core.progress import Progress
from trainwright.data.loading.feed import Feed
from trainwright.engine.bn_recalibration import BatchNormRecalibration
from trainwright.engine.job import Validate
from trainwright.engine.update.average_update import AverageUpdate, Mean
from trainwright.objective.losses import Objective
from trainwright.optim.build_optimizer import batch_scale, build_optimizer, build_weights
from trainwright.optim.ema import EMA
from trainwright.optim.eval_weights import Evaluating, Weights
from trainwright.optim.freezing import Unfreezing, freeze
from trainwright.optim.lr_schedule import Schedule, build_schedule
from trainwright.optim.optimizer_protocol import Optimizer
from trainwright.optim.parameter_groups import NO_FACTORS, Factors
from trainwright.optim.plateau import Plateau, Telling
from trainwright.optim.schedule import BatchRate, Knob, LearningRate
from trainwright.optim.swa import SWA, SWALearningRate
from trainwright.optim.swa_schedule import taking_of
from trainwright.run.compose.compose_memory import offloaded_state
from trainwright.run.compose.schedule_length import Length


@final
@dataclass(frozen=True, slots=True)
class Averaged:
    """Weight average with its state and schedules; empty if there is none."""

    means: tuple[EMA | SWA, ...] = ()
    knobs: tuple[Knob, ...] = ()
    state: Mapping[str, Stateful] = field(default_factory=dict)


@final
@dataclass(frozen=True, slots=True)
class Learning:
    """Model, objective and feed, the parameters that the model's family does not decay, and the
    names of those that only the files of a base hold, and factors on the learning rate that follow
    from the width."""

    model: nn.Module
    objective: Objective
    feed: Feed
    undecayed: frozenset[nn.Parameter] = frozenset()
    outside: frozenset[str] = frozenset()
    width_factors: Factors = field(default_factory=lambda: NO_FACTORS)


def build_averaged(
    section: Average, learning: Learning, optimizer: Optimizer, length: Length
) -> Averaged:
    """Build the weight average of a contract."""
    match section:
        case "off":
            return Averaged()
        case Ema():
            mean = EMA(learning.model, settled(section.decay), learning.outside)
            return Averaged((mean,), (), {"mean": EMAState(mean)})
        case Swa():
            return _swa(section, learning, optimizer, length)
        case _:
            assert_never(section)


def _swa(section: Swa, learning: Learning, optimizer: Optimizer, length: Length) -> Averaged:
    taking = taking_of(section, length.epoch_ends, length.scheduled_steps)
    batches = partial(learning.feed.from_start, section.batch_norm_rows)
    statistics = BatchNormRecalibration(learning.model, learning.objective, batches)
    mean = SWA(learning.model, taking, statistics, learning.outside)
    knobs: tuple[Knob, ...] = (mean,)
    rate = section.learning_rate
    if rate != "schedule":
        share = rate.anneal_ratio if rate.kind == "constant" else 0.0
        anneal = round(share * length.scheduled_steps)
        knobs = (SWALearningRate(optimizer, rate, taking, anneal), mean)
    return Averaged((mean,), knobs, {"mean": SWAState(mean)})


@final
@dataclass(frozen=True, slots=True)
class Updates:
    """Optimizer of a model with its schedules, state, and a validation that uses the evaluation
    weights. `state` includes the model, `means` the weight average, if any."""

    optimizer: Optimizer
    weights: Weights
    schedule: Schedule | Plateau
    knobs: tuple[Knob, ...]
    state: Mapping[str, Stateful]
    means: tuple[Mean, ...]

    @property
    def averages(self) -> tuple[AverageUpdate, ...]:
        """Updates of each weight average."""
        return tuple(AverageUpdate(mean) for mean in self.means)

    def validated(self, validate: Validate) -> Validate:
        """Validation with the evaluation weights, whose loss updates a plateau schedule."""
        evaluating = Evaluating(validate, self.weights)
        if isinstance(self.schedule, Plateau):
            return Telling(evaluating, self.schedule)
        return evaluating


def build_updates(
    training: Training,
    learning: Learning,
    model_state: ModuleState,
    length: Length,
    map_to_plan: Callable[[int], int] | None,
) -> Updates:
    """Build the updates of a model over a run of this length; `map_to_plan` is the step whose
    learning rate a step has, None if each has its own."""
    model = learning.model
    freeze(model, training.freeze)
    rows = settled(training.effective_batch_size)
    built = build_optimizer(
        training.optimizer, model, rows, learning.undecayed, learning.width_factors
    )
    optimizer = offloaded_state(built, training.memory)
    averaged = build_averaged(training.average, learning, optimizer, length)
    weights = build_weights(training.optimizer, optimizer)
    for mean in averaged.means:
        weights = mean
    schedule = build_schedule(training.scheduler, length.scheduled_steps)
    own: dict[str, Stateful] = {MODEL: model_state}
    if isinstance(schedule, Plateau):
        own["plateau"] = PlateauState(schedule)
    if training.checkpointing.save_optimizer_state:
        own["optimizer"] = OptimizerState(optimizer, model.named_parameters())
    state = merge_state(own, evaluated_state(weights, model_state), averaged.state)
    unfreezing = Unfreezing(model, training.freeze, length.rows)
    unfreezing(Progress())  # before the first checkpoint, whose base holds what is frozen then
    rate = schedule if map_to_plan is None else lambda step: schedule(map_to_plan(step))
    knobs = (
        LearningRate(optimizer, rate),
        *averaged.knobs,
        *_batch_rate(training, optimizer, length),
        unfreezing,
    )
    return Updates(optimizer, weights, schedule, knobs, state, averaged.means)


def _batch_rate(training: Training, optimizer: Optimizer, length: Length) -> tuple[Knob, ...]:
    """Schedule that applies the `batch_scaling` rule while steps grow; None without such a ramp."""
    rule = training.optimizer.batch_scaling
    if training.ramps.batch == "off" or rule == "none":
        return ()
    full = settled(training.effective_batch_size)
    return (BatchRate(optimizer, length.step_rows.at, partial(batch_scale, rule), full),)
