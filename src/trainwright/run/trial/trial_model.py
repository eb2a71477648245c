"""The plan's own network and batches, for measurements before training. Needs torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import nn

from trainwright.checkpoint.states.random_state import RandomState
from trainwright.contract.document import Contract
from trainwright.contract.sections.training.ramps import Ramps
from trainwright.data.loading.feed import Feed
from trainwright.data.types import Prepared
from trainwright.model.build_network import build_network
from trainwright.model.families import network_family
from trainwright.model.family import MemoryFormat
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
from trainwright.run.input_shapes import shape_of


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
