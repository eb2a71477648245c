"""The wiring of a network's run: every object of a `Job`, built from the plan. Needs torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import nn

from trainwright.checkpoint.module import ModuleState
from trainwright.checkpoint.random_state import RandomState
from trainwright.checkpoint.store import Checkpoints
from trainwright.contract.metric import METRICS, Direction, Metric
from trainwright.contract.model import Network
from trainwright.contract.section import settled
from trainwright.contract.training import Training
from trainwright.core.files import Json
from trainwright.data.pixels import Pixels
from trainwright.data.prepared import Prepared
from trainwright.data.store import Batch
from trainwright.data.target import Classes, NextToken
from trainwright.engine.guard import HaltOnNonFinite
from trainwright.engine.job import Every, Job
from trainwright.engine.precision import build_precision
from trainwright.engine.step import OptimizerStep
from trainwright.engine.stop import Patience, StepLimit, StopRequested, TimeLimit
from trainwright.evaluation.answers import Answers, answers_of
from trainwright.evaluation.metrics import measure
from trainwright.model.build import build_network
from trainwright.objective.build import build_loss
from trainwright.objective.losses import Mixed, Objective, Supervised, TargetLoss
from trainwright.optim.weights import Weights
from trainwright.planner.plan import Plan
from trainwright.predictor.network import NetworkScorer
from trainwright.run.context import RunContext
from trainwright.run.feeding import blends, build_feed, class_rows, part_tensors, shape_of
from trainwright.run.updates import build_updates

_WINDOW_ON_GPU = 50
_VALIDATION_VALUES = 2**20


@final
@dataclass(frozen=True, slots=True)
class Composed:
    """A job with the parts that are asked for after it: the best weights and the scorer."""

    job: Job
    checkpoints: Checkpoints
    model: ModuleState
    scorer: NetworkScorer
    weights: Weights


def compose(section: Network, plan: Plan, prepared: Prepared, run: RunContext) -> Composed:
    """Wire a network's run. The first weights are drawn here, from the contract's seed."""
    contract, training = plan.contract, plan.contract.training
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(contract.seed)
    shape = shape_of(prepared)
    model = build_network(section, shape).to(device)
    scorer = NetworkScorer(section, shape, prepared.target, model)
    loss = build_loss(training.loss, class_rows(prepared), device)
    objective: Objective = Mixed(loss) if blends(contract) else Supervised(loss)
    feed = build_feed(contract, prepared, device)
    total_steps = settled(training.num_epochs) * feed.steps_per_epoch
    patience = _patience(training)
    seconds = contract.budget.seconds()
    limit = TimeLimit(seconds, f"the budget of {seconds / 3600:g} hours")
    validate_every = Every(training.validate_every_n_epochs * feed.steps_per_epoch)
    keep = training.checkpointing.keep_top_k
    checkpoints = Checkpoints(run.folder.checkpoints, keep, patience.direction)
    model_state = ModuleState(model)
    updates = build_updates(training, model, model_state, total_steps)
    validation = Validation(prepared, scorer, plan, _validation_loss(loss, model, prepared, device))
    job = Job(
        model=model,
        feed=feed,
        step=OptimizerStep(
            model,
            objective,
            updates.optimizer,
            max_norm=_max_norm(training),
            precision=build_precision(_precision(training), device),
        ),
        knobs=updates.knobs,
        guard=HaltOnNonFinite(1 if device.type == "cpu" else _WINDOW_ON_GPU),
        stop_rules=(StepLimit(total_steps), patience, limit, StopRequested(run.flag)),
        state={
            **updates.state,
            "random": RandomState(),
            "patience": patience,
            "clock": limit,
        },
        observers=(*run.observers, run.screen.progress(total_steps)),
        validate=updates.validated(validation),
        validate_every=validate_every,
        patience=patience,
        checkpoints=checkpoints,
        checkpoint_every=_checkpoint_every(plan, validate_every),
        inventory=_inventory(plan, prepared),
    )
    return Composed(job, checkpoints, model_state, scorer, updates.weights)


@final
class Validation:
    """The validation loss and metrics of a network."""

    def __init__(
        self, prepared: Prepared, scorer: NetworkScorer, plan: Plan, loss: ValidationLoss
    ) -> None:
        self._part = prepared.validation
        self._target = prepared.target
        self._scorer = scorer
        self._loss = loss
        self._section = plan.contract.metric
        watched = _watched(plan.contract.training).removeprefix("val_")
        self._names = dict.fromkeys(
            name for name in (watched, self._section.name) if name in METRICS
        )

    def __call__(self) -> Mapping[str, float]:
        """`val_loss`, the watched metric and the contract's, on all validation rows."""
        scores = self._scorer.score(self._part.inputs)
        positive = self._target.positive if isinstance(self._target, Classes) else -1
        answers = answers_of(self._part.target, scores, positive)
        values = {f"val_{name}": measure(name, answers, self._section) for name in self._names}
        return {"val_loss": self._loss(answers), **values}


ValidationLoss = Callable[[Answers], float]
"""The loss on the validation part, for which the answers have been made already."""


def _validation_loss(
    loss: TargetLoss, model: nn.Module, prepared: Prepared, device: torch.device
) -> ValidationLoss:
    """The mean training loss over the validation rows; of a text its nats per token."""
    if isinstance(prepared.target, NextToken):
        return lambda answers: measure("nats_per_token", answers, Metric())
    if isinstance(prepared.features, Pixels):
        return lambda answers: _loss_of_answers(loss, answers, device)
    batch = part_tensors(prepared.validation, prepared, device)
    return _LossOverRows(Supervised(loss), model, batch)


def _loss_of_answers(loss: TargetLoss, answers: Answers, device: torch.device) -> float:
    """The mean loss of probabilities that are there already: a second pass over images costs more
    than it tells. log p are logits of p; their z-loss is 0."""
    scores = torch.tensor(answers.scores, dtype=torch.float32, device=device)
    truth = torch.tensor(answers.truth, device=device)
    total = loss.total(scores.clamp_min(torch.finfo(torch.float32).tiny).log(), truth)
    return float(total.sum) / total.targets


@final
class _LossOverRows:
    def __init__(self, objective: Objective, model: nn.Module, batch: Batch) -> None:
        self._objective = objective
        self._model = model
        self._batch = batch

    def __call__(self, _: Answers) -> float:
        total, count = 0.0, 0
        rows = _VALIDATION_VALUES // max(1, sum(one[0].numel() for one in self._batch))
        rows = min(8192, max(64, rows))
        for start in range(0, len(self._batch[0]), rows):
            batch = tuple(tensor[start : start + rows] for tensor in self._batch)
            loss_sum, targets = self._objective(self._model, batch)
            total += float(loss_sum)
            count += targets
        return total / count


def _watched(training: Training) -> str:
    return "val_loss" if training.early_stopping == "off" else training.early_stopping.metric


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


def _precision(training: Training) -> Literal["fp32", "bf16"]:
    match training.mixed_precision:
        case "fp32" | "bf16" as chosen:
            return chosen
        case other:
            raise AssertionError(f"a plan has no {other}: decided, and available")


def _max_norm(training: Training) -> float:
    clipping = training.gradient_clipping
    return math.inf if clipping == "off" else clipping


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
