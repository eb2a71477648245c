"""Causal attention, in the form that is fastest where it runs."""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

_LONGEST_WHOLE = 512
"""Positions up to which a CPU computes the whole matrix of weights in bf16. Torch's fused kernel
never writes that matrix, which pays for long windows; with its backward pass it takes two to three
times as long as this at 64 positions, half as long again at 512, and less than half at 1,024."""


def attend(
    queries: Float[Tensor, "B H L D"],
    keys: Float[Tensor, "B H L D"],
    values: Float[Tensor, "B H L D"],
    dropout: float,
    seen: Literal["past"] | Bool[Tensor, "B 1 L L"] = "past",
) -> Float[Tensor, "B H L D"]:
    """softmax(Q K' / sqrt(D)) V, where no position sees one after it (Vaswani et al. 2017,
    arXiv:1706.03762, equation 1), or each sees those that `seen` says; a share `dropout` of the
    weights is dropped."""
    is_short = queries.shape[2] <= _LONGEST_WHOLE
    if queries.device.type == "cpu" and queries.dtype == torch.bfloat16 and is_short:
        return attend_whole(queries, keys, values, dropout, seen)
    if not isinstance(seen, str):
        return functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=seen, dropout_p=dropout
        )
    return functional.scaled_dot_product_attention(
        queries, keys, values, is_causal=True, dropout_p=dropout
    )


def attend_whole(
    queries: Float[Tensor, "B H L D"],
    keys: Float[Tensor, "B H L D"],
    values: Float[Tensor, "B H L D"],
    dropout: float,
    seen: Literal["past"] | Bool[Tensor, "B 1 L L"] = "past",
) -> Float[Tensor, "B H L D"]:
    """The same through the whole matrix of weights [B H, L, L], whose softmax is taken in fp32."""
    length, width = queries.shape[2:]
    hidden = torch.full((length, length), -math.inf, dtype=queries.dtype, device=queries.device)
    if isinstance(seen, str):
        hidden = hidden.triu(1)
    else:
        hidden = hidden.expand(len(queries), queries.shape[1], -1, -1)
        hidden = hidden.masked_fill(seen, 0.0).flatten(0, 1)
    scores = torch.baddbmm(
        hidden,
        queries.flatten(0, 1),
        keys.flatten(0, 1).transpose(1, 2),
        alpha=width**-0.5,
    )
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(values.dtype)
    if dropout:
        weights = functional.dropout(weights, dropout)
    return torch.bmm(weights, values.flatten(0, 1)).view(queries.shape)


def within_documents(positions: Int[Tensor, "B L"]) -> Bool[Tensor, "B 1 L L"]:
    """Which positions (columns) each one (rows) sees in a window of several documents: those of its
    own that are not after it. `positions` begin at 0 in each document (a block-diagonal
    causal mask; Krell et al. 2021, arXiv:2107.02027, section 3.2.2)."""
    document = (positions == 0).cumsum(dim=1)
    same = document[:, :, None] == document[:, None, :]
    return same.tril()[:, None]
