"""Causal attention, by the fastest implementation for the device."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional

from trainwright.model.attention.attention_cpu import attend_pieces, takes_pieces
from trainwright.model.attention.full_attention import Heads, Seen, attend_whole

_LONGEST_KEPT = 512
"""Longest window for which the attention weights are stored in bf16 on a CPU. Torch's fused kernel
never stores them, which saves memory for long windows; with its backward pass it takes 5 times as
long at 64 positions, and 2 to 3 times from 128 to 512."""


def attend(
    queries: Heads, keys: Heads, values: Heads, dropout: float, seen: Seen = "past"
) -> Heads:
    """softmax(Q K' / sqrt(D)) V (Vaswani et al. 2017, arXiv:1706.03762, equation 1) over the keys
    `seen`; attention weights are dropped with probability `dropout`."""
    is_short = queries.shape[2] <= _LONGEST_KEPT
    if queries.device.type == "cpu" and queries.dtype == torch.bfloat16 and is_short:
        if takes_pieces(queries) and not dropout:
            return attend_pieces(queries, keys, values, seen)
        return attend_whole(queries, keys, values, dropout, seen)
    if not isinstance(seen, str):
        return functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=seen, dropout_p=dropout
        )
    return functional.scaled_dot_product_attention(
        queries, keys, values, is_causal=True, dropout_p=dropout
    )


def within_documents(positions: Int[Tensor, "B L"]) -> Bool[Tensor, "B 1 L L"]:
    """Block-diagonal causal mask of packed documents: keys (columns) visible to each query (row),
    those of its own document that are not after it. `positions` start at 0 in each document (Krell
    et al. 2021, arXiv:2107.02027, section 3.2.2)."""
    document = (positions == 0).cumsum(dim=1)
    same = document[:, :, None] == document[:, None, :]
    return same.tril()[:, None]


def behind_prompt(seen: Bool[Tensor, "B 1 L L"], length: int) -> Bool[Tensor, "B 1 P P"]:
    """A mask with `length` keys before it that every query sees, and as many queries that see
    those up to themselves: each document has the prompt before it."""
    if not length:
        return seen
    whole = functional.pad(seen, (length, 0, length, 0))
    whole[..., :, :length] = True
    whole[..., :length, :length] = torch.ones_like(whole[..., :length, :length]).tril()
    return whole
