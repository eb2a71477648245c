"""Optimizer protocol of the training loop."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Protocol

import torch

from trainwright.optim.state_offload import OffloadedOptimizer


class Optimizer(Protocol):
    """Turns the gradients of its parameters into an update. Every torch optimizer is one.

    `param_groups` and `state` are those of torch: a checkpoint contains them and nothing else, so
    an optimizer must keep no other state between steps.
    """

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Parameters under `params`, and the options of the group."""
        ...

    @property
    def state(self) -> MutableMapping[Any, Any]:
        """State of each parameter by name, created on first access."""
        ...

    def step(self) -> object:
        """Update from the gradients of the parameters."""
        ...


def drops_on_device(optimizer: Optimizer) -> bool:
    """Do its kernels take `grad_scale` and `found_inf`, that is, are all of its groups fused?
    Otherwise it must not be stepped when a gradient is not finite, which costs reading one
    number."""
    return isinstance(optimizer, torch.optim.Optimizer | OffloadedOptimizer) and all(
        group.get("fused") for group in optimizer.param_groups
    )
