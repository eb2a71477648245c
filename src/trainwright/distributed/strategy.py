"""How the work is divided among devices. One process is the simplest strategy."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Protocol, final

import torch
from torch import Tensor


class Strategy(Protocol):
    """What a step needs to know of other ranks.

    Numbers it returns are the same on every rank, so that every rank takes the same branch.
    """

    @property
    def ranks(self) -> int:
        """Processes that train together."""
        ...

    def gradient_norm(self, gradients: list[Tensor]) -> float | Tensor:
        """The L2 norm of the whole gradient, over all parameters and shards: a number where reading
        it is free (on a CPU), else a 0-d tensor that stays on the device."""
        ...


@final
class SingleProcess:
    """One process with one device."""

    ranks = 1

    def gradient_norm(self, gradients: list[Tensor]) -> float | Tensor:
        """The L2 norm of all gradients together."""
        return norm_of_norms(norms_of(gradients))


def norms_of(tensors: Sequence[Tensor], order: float = 2.0) -> list[Tensor]:
    """The vector norm of each tensor, 0-d. The shards of a `DTensor` are reduced over its ranks,
    which therefore all call this with the same tensors."""
    # Without the import, which takes half a second, there is no DTensor.
    sharding = sys.modules.get("torch.distributed.tensor")
    if sharding is None or not any(isinstance(one, sharding.DTensor) for one in tensors):
        return list(torch._foreach_norm(list(tensors), order))
    norms = [torch.linalg.vector_norm(one, order) for one in tensors]
    return [n.full_tensor() if isinstance(n, sharding.DTensor) else n for n in norms]


def norm_of_norms(norms: Sequence[Tensor]) -> float | Tensor:
    """The L2 norm of tensors together, from the norm of each (0-d): read on a CPU, elsewhere it
    stays on the device."""
    if norms[0].device.type == "cpu":
        return math.hypot(*[norm.item() for norm in norms])
    total: Tensor = torch.linalg.vector_norm(torch.stack(list(norms)))
    return total
