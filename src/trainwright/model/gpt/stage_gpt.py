"""Stages of the decoder for pipeline parallelism. Needs torch."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, final

import numpy as np
from torch import Tensor, nn


def cut_decoder(network: Any, stage: int, stages: int, position_ranks: int) -> None:
    """Keep the blocks of one stage, of `stages` that cost about as much, in place: what it keeps
    has its usual name. The first one has the embedding, the last one the head, which is not tied to
    it; between them go activations [B, L, D], of which each of the `position_ranks` has some
    positions."""
    first, end = _bounds(network, stages)[stage : stage + 2]
    for number in range(len(network.blocks)):
        if not first <= number < end:
            network.blocks[number] = ElsewhereBlock()
    if stage:
        network.embedding = network.places = network.dropout = nn.Identity()
        network.learned, network.position_ranks = False, position_ranks
    if stage < stages - 1:
        network.norm, network.head, network.output_factor = nn.Identity(), None, 1.0
        network.continues = True


def _bounds(network: Any, stages: int) -> list[int]:
    """The first block of each stage, and the number of blocks. A block costs its weights per token,
    the head as well."""
    blocks = [sum(one.numel() for one in block.parameters()) for block in network.blocks]
    total = list(accumulate(blocks, initial=0))
    whole = total[-1] + network.head_weight.numel()
    bounds = [0]
    for stage in range(1, stages):
        nearest = int(np.abs(np.array(total) - whole * stage / stages).argmin())
        bounds.append(min(max(nearest, bounds[-1] + 1), len(blocks) - stages + stage))
    return [*bounds, len(blocks)]


@final
class ElsewhereBlock(nn.Module):
    """A block of another stage."""

    def forward(self, x: Tensor, _turn: object, _seen: object) -> Tensor:
        """Its input."""
        return x
