"""How the work is divided among devices. One process is the simplest strategy."""

from __future__ import annotations

import math
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
        norms = torch._foreach_norm(gradients)
        if norms[0].device.type == "cpu":
            return math.hypot(*[norm.item() for norm in norms])
        total: Tensor = torch.linalg.vector_norm(torch.stack(norms))
        return total
