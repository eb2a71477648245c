"""Causal attention, in the form that is fastest where it runs."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
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
) -> Float[Tensor, "B H L D"]:
    """softmax(Q K' / sqrt(D)) V, where no position sees one after it (Vaswani et al. 2017,
    arXiv:1706.03762, equation 1); a share `dropout` of the weights is dropped."""
    is_short = queries.shape[2] <= _LONGEST_WHOLE
    if queries.device.type == "cpu" and queries.dtype == torch.bfloat16 and is_short:
        return attend_whole(queries, keys, values, dropout)
    return functional.scaled_dot_product_attention(
        queries, keys, values, is_causal=True, dropout_p=dropout
    )


def attend_whole(
    queries: Float[Tensor, "B H L D"],
    keys: Float[Tensor, "B H L D"],
    values: Float[Tensor, "B H L D"],
    dropout: float,
) -> Float[Tensor, "B H L D"]:
    """The same through the whole matrix of weights [B H, L, L], whose softmax is taken in fp32."""
    length, width = queries.shape[2:]
    future = torch.full((length, length), -math.inf, dtype=queries.dtype, device=queries.device)
    scores = torch.baddbmm(
        future.triu(1),
        queries.flatten(0, 1),
        keys.flatten(0, 1).transpose(1, 2),
        alpha=width**-0.5,
    )
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(values.dtype)
    if dropout:
        weights = functional.dropout(weights, dropout)
    return torch.bmm(weights, values.flatten(0, 1)).view(queries.shape)
