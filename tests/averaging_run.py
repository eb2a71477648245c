"""A run with an equal mean of its weights, and what is seen of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from objectives import squared_error
from stopped_runs import Cut
from trainwright.checkpoint.states.average_state import SWAState
from trainwright.checkpoint.states.eval_weights_state import evaluated_state
from trainwright.checkpoint.states.module_state import ModuleState
from trainwright.checkpoint.states.optimizer_state import OptimizerState
from trainwright.checkpoint.states.random_state import RandomState
from trainwright.checkpoint.store import Checkpoints
from trainwright.contract.sections.training.scheduler import ConstantRate
from trainwright.contract.sections.training.training import Guard
from trainwright.data.loading.batch import Batch
from trainwright.data.loading.feed import Feed, StepBatches
from trainwright.engine.bn_recalibration import BatchNormRecalibration
from trainwright.engine.guards.rollback import RollbackBackoff
from trainwright.engine.guards.step_guard import PolicyGuard
from trainwright.engine.job import Every, Job
from trainwright.engine.stopping.stop_rules import Patience, StepLimit
from trainwright.engine.update.average_update import AverageUpdate
from trainwright.engine.update.step import OptimizerStep
from trainwright.objective.losses import LossSum
from trainwright.optim.eval_weights import Evaluating
from trainwright.optim.swa import SWA, SWALearningRate
from trainwright.optim.swa_schedule import SWASchedule
from trainwright.testing.fakes import MemoryCheckpoints
from trainwright.tracking.events import Event, RolledBack, StepKept, StepOutcome

STEPS, TAKING = 24, SWASchedule(8, (10, 14, 18, 22))


def network(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 16),
        nn.BatchNorm1d(16, momentum=0.05),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(16, 8),
        nn.BatchNorm1d(8),
        nn.Tanh(),
        nn.Linear(8, 1),
    )


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(48, 4, generator=generator)
    return x, x.sum(1, keepdim=True).sin()


@dataclass
class Averaging:
    """A job with a mean of the weights, as it is wired from a contract."""

    job: Job
    model: nn.Module
    mean: SWA
    taken: dict[int, list[Tensor]]
    losses: list[float]

    def fold(self) -> list[Tensor]:
        """The equal mean of what was taken, in fp64."""
        stacks = zip(*self.taken.values(), strict=True)
        return [torch.stack([one.double() for one in weights]).mean(0) for weights in stacks]


def averaging(
    store: MemoryCheckpoints | Checkpoints,
    cut: float = math.inf,
    policy: str = "raise",
    poisoned: range = range(0),
    taking: SWASchedule = TAKING,
) -> Averaging:
    model = network(dropout=0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, fused=True)
    feed = Feed(data(), 8, seed=2)

    def poisoning(model: nn.Module, batch: Batch) -> LossSum:
        loss, count = squared_error(model, batch)
        if model.training and attempts[0] in poisoned:
            loss = loss * math.nan
        return LossSum(loss, count)

    attempts = [0]
    inner = OptimizerStep(model, poisoning, optimizer)

    def step(work: StepBatches) -> StepOutcome:
        attempts[0] += 1
        return inner(work)

    statistics = BatchNormRecalibration(model, squared_error, lambda: feed.from_start(40))
    mean = SWA(model, taking, statistics)
    caution = RollbackBackoff(optimizer, 1.0, 1)
    guard = PolicyGuard(Guard(non_finite=policy, spike="ignore"), caution, feed.rows_between)
    losses: list[float] = []

    def score() -> dict[str, float]:
        losses.append(float(squared_error(model, data()).sum))
        return {"val_loss": losses[-1]}

    taken: dict[int, list[Tensor]] = {}

    class Taken:
        def observe(self, event: Event) -> None:
            if isinstance(event, StepKept) and event.progress.step in taking.steps:
                taken[event.progress.step] = [p.detach().clone() for p in model.parameters()]
            if isinstance(event, RolledBack):
                for made in [made for made in taken if made > event.progress.step]:
                    del taken[made]

    state = ModuleState(model)
    patience = Patience("val_loss", "min", math.inf)
    job = Job(
        model=model,
        feed=feed,
        step=step,
        outcome_observers=(AverageUpdate(mean),),
        stop_rules=(StepLimit(STEPS), Cut(cut)),
        knobs=(SWALearningRate(optimizer, ConstantRate(ratio=0.5), taking, 3), mean, caution),
        guard=guard,
        state={
            "model": state,
            **evaluated_state(mean, state),
            "mean": SWAState(mean),
            "optimizer": OptimizerState(optimizer, model.named_parameters()),
            "random": RandomState(),
            "guard": guard,
            "caution": caution,
            "patience": patience,
        },
        observers=(Taken(),),
        validate=Evaluating(score, mean),
        validate_every=Every(4),
        patience=patience,
        checkpoints=store,
        checkpoint_every=Every(3),
    )
    return Averaging(job, model, mean, taken, losses)
