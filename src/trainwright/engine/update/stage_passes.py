"""The passes of a step through the stages of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import final

import torch
from torch import Tensor, nn

from trainwright.data.loading.batch import Batch
from trainwright.distributed.strategy import Packet, Staged, StagePasses, packet_of
from trainwright.objective.losses import LossSum, Objective


@final
class GivenLogits(nn.Module):
    """In the place of a model whose logits were computed elsewhere."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self._logits = logits

    def forward(self, *_inputs: Tensor) -> Tensor:
        """The logits."""
        return self._logits


def pass_stages(
    stages: Staged,
    batches: Sequence[Batch],
    objective: Objective,
    forward: Callable[[], AbstractContextManager[object]],
    root: Callable[[Tensor], Tensor],
    draw: Callable[[int], None],
) -> Packet:
    """Accumulate the gradients of all micro-batches; the packet of this rank, which has the loss if
    it has the last stage."""
    sums: list[LossSum] = []

    def loss(number: int, logits: Tensor) -> Tensor:
        loss_sum, count = objective(GivenLogits(logits), batches[number])
        sums.append(LossSum(loss_sum.detach(), count))
        return loss_sum * root(loss_sum)

    if batches:
        inputs = [batch.supervised()[1] for batch in batches]
        stages.run_passes(StagePasses(inputs, draw, forward, loss))
    if not sums:
        return Packet(0.0, 0)
    total = torch.stack([one.sum for one in sums]).sum()
    return packet_of(total, sum(one.targets for one in sums))
