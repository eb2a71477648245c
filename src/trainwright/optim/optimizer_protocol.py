"""What the loop needs of an optimizer."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Protocol

import torch

from trainwright.optim.state_offload import OffloadedOptimizer


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


def drops_on_device(optimizer: Optimizer) -> bool:
    """Whether its kernels take `grad_scale` and `found_inf`: all of its groups are fused. Any other
    must not be stepped at all when a gradient is not finite, which costs reading one number."""
    return isinstance(optimizer, torch.optim.Optimizer | OffloadedOptimizer) and all(
        group.get("fused") for group in optimizer.param_groups
    )
