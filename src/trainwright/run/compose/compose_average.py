"""Builds the weight average of a run. Needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import assert_never, final

from torch import nn

from trainwright.checkpoint.state import Stateful
from trainwright.checkpoint.states.average_state import EMAState, SWAState
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training.averaging import Average, Ema, Swa
from trainwright.data.loading.feed import Feed
from trainwright.engine.bn_recalibration import BatchNormRecalibration
from trainwright.objective.losses import Objective
from trainwright.optim.ema import EMA
from trainwright.optim.optimizer_protocol import Optimizer
from trainwright.optim.parameter_groups import NO_FACTORS, Factors
from trainwright.optim.schedule import Knob
from trainwright.optim.swa import SWA
from trainwright.optim.swa_lr import SWALearningRate
from trainwright.optim.swa_schedule import taking_of
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
