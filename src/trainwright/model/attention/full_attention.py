"""Reference attention that materialises all weights, differentiated by autograd."""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

Heads = Float[Tensor, "B H L D"]
"""Queries, keys, values or outputs: B rows of H heads at L positions."""

Seen = Literal["past"] | Bool[Tensor, "B 1 L L"]
"""Keys that a query attends to: `past`, those that are not after it, or where a mask is true."""


def attend_whole(
    queries: Heads, keys: Heads, values: Heads, dropout: float, seen: Seen = "past"
) -> Heads:
    """softmax(Q K' / sqrt(D)) V over the keys `seen`, with all weights [B H, L, L] at once and
    their softmax in fp32; weights are dropped with probability `dropout`."""
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
