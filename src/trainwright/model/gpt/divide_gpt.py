"""The decoder over several ranks: tensor parallelism with sequence parallelism. Needs torch.

Each rank has some of the heads and of the inner features of every block, and some rows of the
embedding and of the head. Between the matrices of a block it has some of the positions (Korthikanti
et al. 2022, arXiv:2205.05198, section 4.2.2), so that norms and dropout are computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn import functional

from trainwright.model.gpt.stage_gpt import ElsewhereBlock

_POSITIONS, _VOCABULARY, _WHOLE = Shard(1), Shard(2), Replicate()


def divide_decoder(network: Any, mesh: DeviceMesh) -> None:
    """Divide the weights of a decoder, or of a stage of it, over the ranks of a mesh of one
    dimension, in place. Its logits are whole on each of them."""
    windows = _Windows(mesh.size())
    for block in network.blocks:
        if not isinstance(block, ElsewhereBlock):
            _divide_block(block, mesh)
    if isinstance(network.embedding, nn.Embedding):
        embedding = RowwiseParallel(input_layouts=_WHOLE, output_layouts=_POSITIONS)
        parallelize_module(network.embedding, mesh, embedding)
        network.register_forward_pre_hook(windows.pad)
    if network.learned:
        # Of running positions there is one row for the whole micro-batch.
        places = RowwiseParallel(input_layouts=_WHOLE, output_layouts=Shard(-2))
        parallelize_module(network.places, mesh, places)
    if network.continues:
        return
    parallelize_module(network.norm, mesh, SequenceParallel())
    features = PrepareModuleOutput(
        output_layouts=_POSITIONS, desired_output_layouts=_WHOLE, use_local_output=False
    )
    parallelize_module(network.norm, mesh, features)
    if network.head is not None:
        parallelize_module(network.head, mesh, ColwiseParallel())
    logits = PrepareModuleOutput(output_layouts=_VOCABULARY, desired_output_layouts=_WHOLE)
    parallelize_module(network, mesh, logits)
    network.register_forward_hook(windows.cut)


def _divide_block(block: Any, mesh: DeviceMesh) -> None:
    """Each rank gets the queries, keys and values of its heads, and the gate and the values of its
    inner features, which follow one another in a matrix."""
    ranks, head = mesh.size(), block.attended.in_features // block.heads
    queries, keys = block.heads * head, block.key_heads * head
    inner = (block.narrow.in_features,) * (2 if block.gated else 1)
    orders = (
        (block.queries_keys_values, _interleave((queries, keys, keys), ranks)),
        (block.wide, _interleave(inner, ranks)),
    )
    with torch.no_grad():
        for layer, order in orders:
            for parameter in layer.parameters():
                parameter.copy_(parameter[order])
    block.heads, block.key_heads = block.heads // ranks, block.key_heads // ranks
    norm = SequenceParallel()
    widening = ColwiseParallel(input_layouts=_POSITIONS)
    narrowing = RowwiseParallel(output_layouts=_POSITIONS)
    plan = {"before_attention": norm, "queries_keys_values": widening, "attended": narrowing}
    plan |= {"before_forward": norm, "wide": widening, "narrow": narrowing}
    parallelize_module(block, mesh, plan)
    for layer, order in orders:
        for parameter in layer.parameters():
            parameter.row_order = order


def _interleave(sizes: Sequence[int], ranks: int) -> Tensor:
    """Order of rows in which the share of each rank in every part is contiguous."""
    parts = [part.chunk(ranks) for part in torch.split(torch.arange(sum(sizes)), list(sizes))]
    return torch.cat([part[rank] for rank in range(ranks) for part in parts])


@final
class _Windows:
    """Tokens padded to a multiple of the ranks, and logits without the padding, which no earlier
    position attends to."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._length: int | None = None  # a later stage gets what the first has padded

    def pad(self, _network: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The inputs of the network; packed windows have the length of the context."""
        tokens, *positions = inputs
        self._length = tokens.shape[1]
        missing = -self._length % self._ranks
        assert not (missing and positions), "the rules refuse such a context"
        return functional.pad(tokens, (0, missing)), *positions

    def cut(self, _network: nn.Module, _inputs: object, logits: Tensor) -> Tensor:
        """Logits of the tokens."""
        return logits[:, : self._length]
