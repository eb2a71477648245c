"""Chunked cross-entropy over many classes from 16-bit logits, in cache-sized chunks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_PIECE = 2**19
"""Elements per chunk: 2 MB in fp32."""


def takes_chunks(logits: Tensor) -> bool:
    """Is chunking faster? Yes on a CPU, where torch writes three fp32 matrices of the size of the
    logits, if there are several chunks."""
    is_short = logits.dtype in (torch.bfloat16, torch.float16)
    large = logits.numel() > 2 * _PIECE
    return logits.device.type == "cpu" and is_short and large and not torch.compiler.is_compiling()


def chunked_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """The sum of -log softmax(logits)[target] in fp32, [N, C] and int64 [N] to 0-d.

    As torch under autocast, it computes in fp32 and returns the gradient in the dtype of the
    logits. Between the passes it saves one fp32 number per row. Every target must be a class.
    """
    loss: Tensor = _CrossEntropy.apply(logits, target)  # type: ignore[no-untyped-call]
    return loss


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor) -> Tensor:
        rows = max(1, _PIECE // logits.shape[1])
        total = torch.zeros((), dtype=torch.float32)
        sums: list[Tensor] = []
        for piece, wanted in zip(torch.split(logits, rows), torch.split(target, rows), strict=True):
            exact = piece.float()
            sums.append(torch.logsumexp(exact, dim=1))
            total += (sums[-1] - exact.gather(1, wanted[:, None])[:, 0]).sum()
        ctx.save_for_backward(logits, target, torch.cat(sums))
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        logits, target, sums = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _differentiable(logits, target, gradients[0]), None
        rows = max(1, _PIECE // logits.shape[1])
        out = torch.empty_like(logits)
        parts = (torch.split(tensor, rows) for tensor in (logits, target, sums, out))
        for piece, wanted, total, slope in zip(*parts, strict=True):
            shares = piece.to(torch.float32, copy=True).sub_(total[:, None]).exp_()
            shares[torch.arange(len(wanted)), wanted] -= 1
            slope.copy_(shares.mul_(gradients[0]))
        return out, None


def _differentiable(logits: Tensor, target: Tensor, gradient: Tensor) -> Tensor:
    """Twice-differentiable version, for example for a gradient penalty."""
    wanted = functional.one_hot(target, logits.shape[1])
    return ((torch.softmax(logits.float(), dim=1) - wanted) * gradient).to(logits.dtype)
