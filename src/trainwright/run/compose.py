"""The wiring of a network's run: every object of a `Job`, built from the plan. Needs torch."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import final

import torch

from trainwright.checkpoint.module import ModuleState
from trainwright.checkpoint.random_state import RandomState, seed_generators
from trainwright.checkpoint.state import Stateful
from trainwright.checkpoint.store import Checkpoints
from trainwright.contract.document import Contract
from trainwright.contract.metric import Direction
from trainwright.contract.model import Network
from trainwright.contract.section import settled
from trainwright.contract.training import Training
from trainwright.core.files import Json
from trainwright.data.feed import Feed
from trainwright.data.prepared import Prepared
from trainwright.engine.asked import OrAsked
from trainwright.engine.faults import with_fault_points
from trainwright.engine.inventory import numerics_of
from trainwright.engine.job import Job
from trainwright.engine.portions import Portions
from trainwright.engine.recomputing import recompute
from trainwright.engine.stop import Patience, Reserve, StopRequested, TimeLimit
from trainwright.model.build import BuiltNetwork, build_network, lay_out
from trainwright.objective.build import build_loss
from trainwright.optim.weights import Weights
from trainwright.planner.plan import Plan
from trainwright.predictor.network import NetworkScorer
from trainwright.run.averaging import Learning
from trainwright.run.checkpointing import ToSave, build_checkpoints, build_saving
from trainwright.run.context import RunContext
from trainwright.run.ending import (
    TimedValidation,
    build_step_rules,
    build_target,
    name_budget,
)
from trainwright.run.feeding import (
    build_feed,
    build_objective,
    class_rows,
    feed_gauges,
    target_unit,
)
from trainwright.run.length import length_of, ramped_source
from trainwright.run.measuring import Measurable, Measured, build_measured
from trainwright.run.same_bits import with_same_bits
from trainwright.run.shapes import shape_of
from trainwright.run.stepping import WINDOW, Trained, build_stepping, reader
from trainwright.run.updates import build_updates
from trainwright.run.validating import Validation, validation_loss
from trainwright.tracking.observers import Observer, Observers
from trainwright.tracking.signals import SignalRecorder


@final
@dataclass(frozen=True, slots=True)
class Composed:
    """A job with the parts that are asked for after it: the best weights and the scorer; and the
    feed, which is to be closed then."""

    job: Job
    feed: Feed
    checkpoints: Checkpoints
    model: ModuleState
    scorer: NetworkScorer
    weights: Weights
    copying: AbstractContextManager[object]


@final
@dataclass(frozen=True, slots=True)
class _Ends:
    """What ends a run beside its length, and the time that is kept for what comes after."""

    patience: Patience
    limit: TimeLimit
    reserve: Reserve

    @property
    def state(self) -> dict[str, Stateful]:
        """What a checkpoint holds of it."""
        return {"patience": self.patience, "clock": self.limit}


def compose(section: Network, plan: Plan, prepared: Prepared, run: RunContext) -> Composed:
    """Wire a network's run. The first weights are drawn here, from the contract's seed."""
    contract, training = plan.contract, plan.contract.training
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    seed_generators(contract.seed)
    shape = shape_of(prepared)
    model = build_network(section, shape).to(device)
    _lay_out(model, training)
    model_state = ModuleState(model)
    loss = build_loss(training.loss, class_rows(prepared), device)
    objective = build_objective(contract, loss)
    # Workers have something to tell when all is wired, and not before.
    feed = build_feed(contract, prepared, device, lambda event: tell(event))
    length = length_of(contract, feed)
    validate_every = length.validations(training.validate_every_n_epochs)
    ends = _build_ends(contract)
    limits = (*length.limits, *build_target(training.stop, ends.patience))
    rules = build_step_rules(training.stop)
    updates = build_updates(training, Learning(model, objective, feed), model_state, length)
    shown = run.screen.progress(length.most_steps)
    tell = Observers([*run.observers, shown], run.screen.say).observe
    portions = Portions(training.guard.out_of_memory, tell)
    scorer = NetworkScorer(section, shape, prepared.target, model, portions)
    checkpoints = build_checkpoints(training, run.folder.checkpoints)
    saving = build_saving(plan, ToSave(checkpoints, ends.reserve, tell), run, validate_every)
    trained = Trained(model, objective, updates.optimizer)
    stepping = build_stepping(training, trained, feed, rules, contract.tracking, tell)
    measurable = Measurable(model, settled(training.mixed_precision), target_unit(prepared))
    watching = ((*stepping.gauges, *feed_gauges(contract)), stepping.probes)
    measured = build_measured(contract.tracking, measurable, run, tell, *watching)
    of_rows = validation_loss(loss, model, prepared, portions)
    validation = Validation(prepared, scorer, plan, of_rows)
    own_state: dict[str, Stateful] = {"random": RandomState(), "portions": portions, **ends.state}
    inventory = _inventory(plan, prepared, device)
    job = Job(
        model=model,
        feed=ramped_source(contract, feed),
        step=measured.step(updates.averaged(stepping.step)),
        knobs=(*updates.knobs, stepping.caution),
        guard=stepping.guard,
        stop_rules=(*limits, *rules, ends.patience, ends.limit, StopRequested(run.flag)),
        state={**updates.state, **stepping.state, **measured.state, **own_state},
        observers=(*run.observers, _recorders(run, device, measured), shown),
        validate=TimedValidation(updates.validated(validation), ends.reserve),
        validate_every=validate_every,
        patience=ends.patience,
        rank_by=training.checkpointing.rank_by,
        checkpoints=with_same_bits(saving.store, contract.resume, inventory),
        checkpoint_every=OrAsked(stepping.saved(saving.due), run.flag),
        inventory=inventory,
    )
    job = with_fault_points(job, updates.optimizer)
    return Composed(job, feed, checkpoints, model_state, scorer, updates.weights, saving.copying)


def _lay_out(model: BuiltNetwork, training: Training) -> None:
    """Lay the weights out, and have blocks computed again, as the plan says."""
    lay_out(model, settled(training.compute.memory_format))
    recompute(model, training.memory.activation_checkpointing)


def _build_ends(contract: Contract) -> _Ends:
    reserve = Reserve()
    limit = TimeLimit(contract.budget.seconds(), name_budget(contract.budget), reserve)
    return _Ends(_patience(contract.training), limit, reserve)


def _recorders(run: RunContext, device: torch.device, measured: Measured) -> Observer:
    recorder = SignalRecorder(run.folder.signals, WINDOW, reader(device))
    return Observers([recorder, *measured.windows], run.screen.say)


def _patience(training: Training) -> Patience:
    stopping = training.early_stopping
    if stopping == "off":
        return Patience("val_loss", "min", math.inf)
    direction: Direction = settled(stopping.mode)
    return Patience(stopping.metric, direction, stopping.patience, stopping.min_delta)


def _inventory(plan: Plan, prepared: Prepared, device: torch.device) -> Json:
    """What must be known of the run beside its state, to see whether a resume can be exact."""
    return {
        "plan": plan.hash,
        "data": prepared.version,
        "ranks": 1,
        **numerics_of(device),
    }
