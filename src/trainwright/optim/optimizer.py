"""What the loop needs of an optimizer, and several optimizers as one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import MutableMapping
from typing import Any, Protocol, final

import torch
from torch import Tensor


class Optimizer(Protocol):
    """Turns the gradients of its parameters into an update. Every torch optimizer is one.

    `param_groups` and `state` are those of torch: a checkpoint holds what stands in them, so an
    optimizer must keep nothing else between two steps.
    """

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Parameters under `params`, beside the options of the group."""
        ...

    @property
    def state(self) -> MutableMapping[Any, Any]:
        """The state of each parameter by name, made when it is first asked for."""
        ...

    def step(self) -> object:
        """One update from the gradients that the parameters hold."""
        ...


@final
class JointOptimizer:
    """Several optimizers, each over parameters of its own, stepped together.

    Their groups stand one after the other, and they share one mapping of states, so that whoever
    reads, saves or sets groups and states sees a single optimizer.
    """

    def __init__(self, *members: torch.optim.Optimizer) -> None:
        self._members = members
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
        """Step each."""
        for member in self._members:
            member.step()


def drops_on_device(optimizer: Optimizer) -> bool:
    """Whether its kernels take `grad_scale` and `found_inf`: all of its groups are fused. Any other
    must not be stepped at all when a gradient is not finite, which costs reading one number."""
    return isinstance(optimizer, torch.optim.Optimizer) and all(
        group.get("fused") for group in optimizer.param_groups
    )
