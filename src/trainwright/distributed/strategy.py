"""Distribution strategies: how work is divided among devices."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Protocol, final

import torch
from torch import Tensor


class Strategy(Protocol):
    """What a step needs to know of other ranks.

    Its results are the same on every rank, so that every rank takes the same branch.
    """

    @property
    def ranks(self) -> int:
        """World size: processes that train together."""
        ...

    def gradient_norm(self, gradients: list[Tensor]) -> float | Tensor:
        """L2 norm of the whole gradient, over all parameters and shards: a number where reading it
        is free (on a CPU), else a 0-d tensor on the device."""
        ...


@final
class SingleProcess:
    """A single process with a single device."""

    ranks = 1

    def gradient_norm(self, gradients: list[Tensor]) -> float | Tensor:
        """L2 norm of all gradients."""
        return norm_of_norms(norms_of(gradients))


def norms_of(tensors: Sequence[Tensor], order: float = 2.0) -> list[Tensor]:
    """Vector norm of each tensor, 0-d. The shards of a `DTensor` are reduced over its ranks, which
    must all call this with the same tensors."""
    # If it has not been imported, which takes half a second, there is no DTensor.
    sharding = sys.modules.get("torch.distributed.tensor")
    if sharding is None or not any(isinstance(one, sharding.DTensor) for one in tensors):
        return list(torch._foreach_norm(list(tensors), order))
    norms = [torch.linalg.vector_norm(one, order) for one in tensors]
    return [n.full_tensor() if isinstance(n, sharding.DTensor) else n for n in norms]


def norm_of_norms(norms: Sequence[Tensor]) -> float | Tensor:
    """L2 norm of several tensors, from the norm of each (0-d): read on a CPU, on the device
    elsewhere."""
    if norms[0].device.type == "cpu":
        return math.hypot(*[norm.item() for norm in norms])
    total: Tensor = torch.linalg.vector_norm(torch.stack(list(norms)))
    return total
