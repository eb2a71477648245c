"""The wiring of a network's run: every object of a `Job`, built from the plan. Needs torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import nn

from trainwright.checkpoint.module import ModuleState
from trainwright.checkpoint.optimizer import OptimizerState
from trainwright.checkpoint.random_state import RandomState
from trainwright.checkpoint.state import Stateful
from trainwright.checkpoint.store import Checkpoints
from trainwright.contract.metric import Direction, TaskKind
from trainwright.contract.model import Network
from trainwright.contract.section import settled
from trainwright.contract.training import Training
from trainwright.core.files import Json
from trainwright.data.feed import Feed
from trainwright.data.prepare import Prepared
from trainwright.engine.job import Every, Job
from trainwright.engine.stop import Patience, Reserve, StopRequested, TimeLimit
from trainwright.model.network import build_network
from trainwright.model.shape import TableShape
from trainwright.objective.losses import build_objective
from trainwright.optim.build import build_optimizer
from trainwright.optim.knob import LearningRate
from trainwright.optim.schedule import build_schedule
from trainwright.planner.plan import Plan
from trainwright.predictor.network import NetworkScorer
from trainwright.run.context import RunContext
from trainwright.run.ending import (
    TimedCheckpoints,
    TimedValidation,
    build_limits,
    build_step_rules,
)
from trainwright.run.updating import WINDOW, Trained, build_updating, reader
from trainwright.run.validating import Validation, ValidationLoss, tensors_of
from trainwright.tracking.observers import Observers
from trainwright.tracking.signals import SignalRecorder


@final
@dataclass(frozen=True, slots=True)
class Composed:
    """A job with the parts that are asked for after it: the best weights and the scorer."""

    job: Job
    checkpoints: Checkpoints
    model: ModuleState
    scorer: NetworkScorer


def compose(section: Network, plan: Plan, prepared: Prepared, run: RunContext) -> Composed:
    """Wire a network's run. The first weights are drawn here, from the contract's seed."""
    contract, training = plan.contract, plan.contract.training
    task = _task(contract.task)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(contract.seed)
    features = prepared.features
    shape = TableShape(len(features.numeric_names), features.cardinalities, prepared.target.outputs)
    model = build_network(section, shape).to(device)
    scorer = NetworkScorer(section, shape, prepared.target, model)
    objective = build_objective(task)
    feed = Feed(
        tensors_of(prepared.train, prepared, device),
        settled(training.batch_size),
        settled(training.gradient_accumulation_steps),
        seed=contract.seed,
        shuffle=contract.data.shuffle,
    )
    optimizer = build_optimizer(training.optimizer, model)
    rules = build_step_rules(training.stop)
    updating = build_updating(training, Trained(model, objective, optimizer), feed, rules)
    total_steps = settled(training.num_epochs) * feed.steps_per_epoch
    rate = LearningRate(optimizer, build_schedule(training.scheduler, total_steps))
    patience = _patience(training)
    limits = build_limits(training.stop, total_steps, patience)
    seconds = contract.budget.seconds()
    reserve = Reserve()
    limit = TimeLimit(seconds, f"the budget of {seconds / 3600:g} hours", reserve)
    validate_every = Every(training.validate_every_n_epochs * feed.steps_per_epoch)
    keep = training.checkpointing.keep_top_k
    checkpoints = Checkpoints(run.folder.checkpoints, keep, patience.direction)
    loss = ValidationLoss(objective, model, prepared, device)
    job = Job(
        model=model,
        feed=feed,
        step=updating.step,
        knobs=(rate, updating.caution),
        guard=updating.guard,
        stop_rules=(*limits, *rules, patience, limit, StopRequested(run.flag)),
        state=_state(training, model, optimizer, patience, limit) | dict(updating.state),
        observers=(
            *run.observers,
            Observers([_recorder(run, device)], run.screen.say),
            run.screen.progress(total_steps),
        ),
        validate=TimedValidation(Validation(prepared, scorer, plan, loss), reserve),
        validate_every=validate_every,
        patience=patience,
        checkpoints=TimedCheckpoints(checkpoints, reserve),
        checkpoint_every=_checkpoint_every(plan, validate_every),
        inventory=_inventory(plan, prepared),
    )
    return Composed(job, checkpoints, ModuleState(model), scorer)


def _state(
    training: Training,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    patience: Patience,
    limit: TimeLimit,
) -> dict[str, Stateful]:
    """Everything a checkpoint holds beside the progress, by name."""
    state: dict[str, Stateful] = {
        "model": ModuleState(model),
        "random": RandomState(),
        "patience": patience,
        "clock": limit,
    }
    if training.checkpointing.save_optimizer_state:
        state["optimizer"] = OptimizerState(optimizer, model.named_parameters())
    return state


def _recorder(run: RunContext, device: torch.device) -> SignalRecorder:
    return SignalRecorder(run.folder.signals, WINDOW, reader(device))


def _task(task: str) -> TaskKind:
    assert task in ("classification", "regression"), "the plan has decided the task"
    return "classification" if task == "classification" else "regression"


def _patience(training: Training) -> Patience:
    stopping = training.early_stopping
    if stopping == "off":
        return Patience("val_loss", "min", math.inf)
    direction: Direction = settled(stopping.mode)
    return Patience(stopping.metric, direction, stopping.patience, stopping.min_delta)


def _checkpoint_every(plan: Plan, validate_every: Every) -> Every:
    """As the contract says; if it leaves it open, at the feed's own validations."""
    path = "training.checkpointing.save_every_n_steps"
    if any(choice.path == path for choice in plan.choices):
        return validate_every
    return Every(settled(plan.contract.training.checkpointing.save_every_n_steps))


def _inventory(plan: Plan, prepared: Prepared) -> Json:
    """What must be known of the run beside its state, to see whether a resume can be exact."""
    return {
        "plan": plan.hash,
        "data": prepared.version,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "ranks": 1,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }
