"""Several optimizers as one."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, final

import torch
from torch import Tensor

from trainwright.optim.conv_muon import ConvMuon
from trainwright.optim.fused_adam import stepping_of


@final
class MultiOptimizer:
    """Several optimizers over disjoint parameters, stepped together.

    Their groups are concatenated and they share one mapping of states, so that schedules and
    checkpoints see a single optimizer.
    """

    def __init__(self, *members: torch.optim.Optimizer | ConvMuon) -> None:
        self._steps = [stepping_of(member) for member in members]
        self.param_groups: list[dict[str, Any]] = [
            group for member in members for group in member.param_groups
        ]
        parameters = [p for group in self.param_groups for p in group["params"]]
        assert len(set(parameters)) == len(parameters), "each parameter has one optimizer"
        self.state: defaultdict[Tensor, Any] = defaultdict(dict)
        for member in members:
            self.state.update(member.state)
            member.state = self.state

    def step(self) -> None:
        """Step each of them."""
        for step in self._steps:
            step()
