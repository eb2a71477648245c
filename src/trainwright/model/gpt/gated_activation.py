"""Gated activation of a feed-forward part that keeps its inputs alone for the backward pass."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

_aten = torch.ops.aten


def swish_gate(joined: Float[Tensor, "*B I"]) -> Float[Tensor, "*B H"]:
    """silu(g) u of the halves g and u of the last dimension (SwiGLU: Shazeer 2020,
    arXiv:2002.05202, equation 6)."""
    gate, inner = joined.chunk(2, dim=-1)
    return functional.silu(gate) * inner


def lean_swish_gate(joined: Float[Tensor, "*B I"]) -> Float[Tensor, "*B H"]:
    """The same bits and the same gradient, without silu(g) kept between the passes: it is computed
    again. Where a compiler traces it decides itself what is kept."""
    if torch.compiler.is_compiling():
        return swish_gate(joined)
    found: Tensor = _SwishGate.apply(joined)  # type: ignore[no-untyped-call]
    return found


class _SwishGate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, joined: Tensor) -> Tensor:
        ctx.save_for_backward(joined)
        return swish_gate(joined)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (joined,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            out = swish_gate(joined)
            again: Tensor
            (again,) = torch.autograd.grad(out, joined, gradients[0], create_graph=True)
            return again
        gate, inner = joined.chunk(2, dim=-1)
        of_gate = _aten.silu_backward(gradients[0] * inner, gate)
        return torch.cat([of_gate, gradients[0] * functional.silu(gate)], dim=-1)
