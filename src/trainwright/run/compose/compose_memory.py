"""Builds the memory policies of a network run. Needs torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never, final

import torch
from torch import nn

from trainwright.contract.sections.training.memory import Memory
from trainwright.contract.sections.training.training import Training
from trainwright.distributed.strategy import Strategy
from trainwright.engine.execution.activation_offload import Offloading
from trainwright.engine.execution.precision import Precision
from trainwright.engine.guards.step_guard import StepGuard
from trainwright.engine.stopping.rank_requests import RankRequests
from trainwright.engine.update.gradient_clipping import Clipping
from trainwright.engine.update.oom_policy import SplitOnOutOfMemory, rows_are_mixed
from trainwright.engine.update.optimizer_in_backward import InBackwardStep, NeverSaveHalf
from trainwright.engine.update.step import OptimizerStep
from trainwright.objective.losses import Objective
from trainwright.optim.optimizer_protocol import Optimizer
from trainwright.optim.state_offload import OffloadedOptimizer
from trainwright.tracking.events import Event


@final
@dataclass(frozen=True, slots=True)
class ModelParts:
    """Model, objective and optimizer, and the ranks that train with their requests."""

    model: nn.Module
    objective: Objective
    optimizer: Optimizer
    strategy: Strategy
    requests: RankRequests

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return self.strategy.device


def offloaded(objective: Objective, section: Memory, model: nn.Module) -> Objective:
    """The objective, with activation offloading if the plan says so."""
    return Offloading(objective, model) if section.offload_activations else objective


def offloaded_state(optimizer: Optimizer, section: Memory) -> Optimizer:
    """The optimizer, with its state in host memory if the plan says so."""
    if not section.offload_optimizer:
        return optimizer
    assert isinstance(optimizer, torch.optim.Optimizer), "the rules refuse the others"
    return OffloadedOptimizer(optimizer)


def build_whole_step(
    section: Memory,
    trained: ModelParts,
    objective: Objective,
    clipping: Clipping,
    precision: Precision,
) -> OptimizerStep | InBackwardStep:
    """The step without out-of-memory handling, of an `objective` around that of the model."""
    model, optimizer = trained.model, trained.optimizer
    match section.update:
        case "after_backward":
            return OptimizerStep(
                model,
                objective,
                optimizer,
                clipping=clipping,
                precision=precision,
                strategy=trained.strategy,
            ).carrying(trained.requests)
        case "in_backward":
            assert isinstance(optimizer, torch.optim.Optimizer), "the rules refuse the others"
            return InBackwardStep(model, objective, optimizer, precision=precision)
        case _:
            assert_never(section.update)


def build_guard_of_memory(section: Memory, guard: StepGuard) -> StepGuard:
    """The guard, which never saves a half-made step."""
    return NeverSaveHalf(guard) if section.update == "in_backward" else guard


def build_memory_policy(
    training: Training, trained: ModelParts, tell: Callable[[Event], object]
) -> SplitOnOutOfMemory:
    """Policy that repeats a step in smaller micro-batches when memory runs out, or explains why it
    cannot."""
    # Where the step cannot be repeated, the default is dropped; an explicit setting is refused by a
    # rule.
    whole = training.memory.update == "after_backward" and not trained.strategy.passes_together
    policy = training.guard.out_of_memory if whole else "raise"
    return SplitOnOutOfMemory(policy, tell, rows_are_mixed(trained.model))
