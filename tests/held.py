"""A gradient norm that stays a tensor, as on a device."""

from __future__ import annotations

import torch
from torch import Tensor

from trainwright.distributed.rank_share import WHOLE
from trainwright.distributed.strategy import SingleProcess


class Held:
    rank = 0
    world_size = 1
    share, part, passes_together = WHOLE, 0, False
    device = torch.device("cpu")

    def __init__(self) -> None:
        alone = SingleProcess()
        self.wrap, self.micro_batch = alone.wrap, alone.micro_batch
        self.reduce = alone.reduce

    def gradient_norm(self, gradients: list[Tensor]) -> Tensor:
        return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
