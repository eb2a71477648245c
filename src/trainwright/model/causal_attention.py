"""Causal attention, by the fastest implementation for the device, with its cache of keys and
values. Needs torch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

Pair = tuple[Float[Tensor, "B H L d"], Float[Tensor, "B H L d"]]

Heads = Float[Tensor, "B H L D"]
"""Queries, keys, values or outputs: B rows of H heads at L positions."""

Seen = Literal["past"] | Bool[Tensor, "B 1 L L"]
"""Keys that a query attends to: `past`, those that are not after it, or where a mask is true."""

_PIECE = 2**19
"""Attention weights per block: 1 MB in bf16."""

_ROWS = 128
"""Query positions per block. Of the past, keys after the last of them are skipped, which saves up
to half of the work; with fewer positions the matrix products become too small to be fast."""

_LONGEST_KEPT = 512
"""Longest window for which the attention weights are stored in bf16 on a CPU. Torch's fused kernel
never stores them, which saves memory for long windows; with its backward pass it takes 5 times as
long at 64 positions, and 2 to 3 times from 128 to 512."""


@final
class KeyValueCache:
    """Keys and values [B, H, L, d] of each block; `length` is L."""

    def __init__(self) -> None:
        self.length = 0
        self._blocks: dict[int, Pair] = {}
        self.foreign: Any = None
        """Cache of a model of another library, in place of the blocks."""

    def append(self, block: int, keys: Tensor, values: Tensor) -> Pair:
        """Those of a block, with new ones behind them."""
        if block in self._blocks:
            earlier = self._blocks[block]
            keys = torch.cat([earlier[0], keys], dim=2)
            values = torch.cat([earlier[1], values], dim=2)
        self._blocks[block] = (keys, values)
        return keys, values


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


def takes_pieces(queries: Heads) -> bool:
    """Is blocking faster? Yes if there are several blocks, and no compiler is tracing."""
    rows, heads, length, _ = queries.shape
    return rows * heads * length**2 > _PIECE and not torch.compiler.is_compiling()


def attend_pieces(queries: Heads, keys: Heads, values: Heads, seen: Seen = "past") -> Heads:
    """softmax(Q K' / sqrt(D)) V over the keys `seen`, in blocks of heads and positions: the scores
    are bf16, their softmax is computed in fp32.

    For the backward pass it saves the attention weights in bf16; of the past, without the keys that
    are after a block.
    """
    mixed: Tensor = _Attention.apply(queries, keys, values, seen)  # type: ignore[no-untyped-call]
    return mixed


class _Piece(NamedTuple):
    """Extent of a block: its heads of B x H, its query positions, and the keys they attend to."""

    heads: slice
    rows: slice
    columns: slice


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, values: Tensor, seen: Seen) -> Tensor:
        q, k, v = (tensor.flatten(0, 1) for tensor in (queries, keys, values))
        out, kept = torch.empty_like(q), []
        for piece in _pieces(q, seen):
            heads, rows, columns = piece
            hidden = _hidden(seen, piece, queries)
            past = k[heads, columns].transpose(1, 2)
            scores = torch.baddbmm(hidden, q[heads, rows], past, alpha=_scale(q))
            # Torch's bf16 kernel computes in fp32; autocast would write the scores in fp32.
            weights = torch._softmax(scores, -1, False)
            out[heads, rows] = torch.bmm(weights, v[heads, columns])
            kept.append(weights)
        ctx.seen = seen
        ctx.save_for_backward(queries, keys, values, *kept)
        return out.view(queries.shape)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, values, *kept = ctx.saved_tensors
        if torch.is_grad_enabled():
            mixed = attend_whole(queries, keys, values, 0.0, ctx.seen)
            again = torch.autograd.grad(
                mixed, (queries, keys, values), gradients[0], create_graph=True
            )
            return *again, None
        q, k, v, slope = (t.flatten(0, 1) for t in (queries, keys, values, gradients[0]))
        dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for (heads, rows, columns), weights in zip(_pieces(q, ctx.seen), kept, strict=True):
            part = slope[heads, rows]
            of_weights = torch.bmm(part, v[heads, columns].transpose(1, 2))
            of_scores = torch._softmax_backward_data(of_weights, weights, -1, weights.dtype)
            dv[heads, columns] += torch.bmm(weights.transpose(1, 2), part)
            dq[heads, rows] = torch.bmm(of_scores, k[heads, columns])
            dk[heads, columns] += torch.bmm(of_scores.transpose(1, 2), q[heads, rows])
        scale, shape = _scale(q), queries.shape
        return dq.mul_(scale).view(shape), dk.mul_(scale).view(shape), dv.view(shape), None


def _pieces(flat: Tensor, seen: Seen) -> Iterator[_Piece]:
    """Blocks of queries [B H, L, D], in order."""
    heads, length = flat.shape[:2]
    several = max(1, _PIECE // (min(length, _ROWS) * length))
    for head in range(0, heads, several):
        for row in range(0, length, _ROWS):
            end = min(row + _ROWS, length)
            columns = slice(0, end if isinstance(seen, str) else length)
            yield _Piece(slice(head, min(head + several, heads)), slice(row, end), columns)


def _hidden(seen: Seen, piece: _Piece, queries: Tensor) -> Tensor:
    """Mask added to the scores of a block: 0 where a key is seen, else -inf. [rows, columns] for
    the past, else [heads, rows, columns]."""
    heads, rows, columns = piece
    shape = (rows.stop - rows.start, columns.stop)
    nothing = torch.full(shape, -math.inf, dtype=queries.dtype, device=queries.device)
    if isinstance(seen, str):
        return nothing.triu(1 + rows.start)
    numbers = torch.arange(heads.start, heads.stop, device=queries.device) // queries.shape[1]
    return nothing.expand(len(numbers), -1, -1).masked_fill(seen[numbers, 0, rows, columns], 0.0)


def _scale(flat: Tensor) -> float:
    return float(flat.shape[2] ** -0.5)


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
