"""Classification and token losses on logits."""

from __future__ import annotations

from typing import Any, Literal, final

import torch
from torch import Tensor
from torch.nn import functional

from trainwright.objective.losses import LossSum, in_fp32

_PIECE = 2**19
"""Elements per chunk: 2 MB in fp32."""

_TORCH_IGNORES = -100


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


@final
class CrossEntropyLoss:
    """-log softmax(logits)[target], fused, for logits [..., C] and targets int64 [...].

    With smoothing e the target distribution is (1 - e) on the class plus e / C on every class
    (Szegedy et al. 2016, arXiv:1512.00567, section 7). With `z_loss` the penalty z x
    log(sum(exp(logits)))^2 is added (Chowdhery et al. 2022, arXiv:2204.02311, section 5).

    A class weight multiplies the loss of its rows, and a row still counts as one target. Unlike in
    torch's mean, the sum of the weights is not the count: the mean of a step would then depend on
    which classes it happens to contain. Weights whose mean over the training rows is 1 preserve the
    scale of the gradient.

    Args:
        label_smoothing: e, from 0 to below 1.
        class_weights: [C], or empty for none.
        ignore_index: target value that has no loss and does not count. Counting the others reads
            the targets, a synchronisation on a GPU; the feed must count the same.
        z_loss: z, 0 for none.
    """

    def __init__(
        self,
        label_smoothing: float = 0.0,
        class_weights: Tensor | None = None,
        ignore_index: Literal["none"] | int = "none",
        z_loss: float = 0.0,
    ) -> None:
        self._smoothing = label_smoothing
        self._weights = class_weights
        self._ignores = ignore_index != "none"
        self._ignored = _TORCH_IGNORES if ignore_index == "none" else ignore_index
        self._z = z_loss

    def rows(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Loss of each target, 0 for ignored ones."""
        return self._loss(outputs, target, "none").view(target.shape)

    def total(self, outputs: Tensor, target: Tensor) -> LossSum:
        """Summed loss and the number of targets not ignored."""
        return LossSum(self._loss(outputs, target, "sum"), self.count(target))

    def count(self, target: Tensor) -> int:
        """Number of targets not ignored; also for `Feed(count_targets=...)`."""
        return int((target != self._ignored).sum()) if self._ignores else target.numel()

    def _loss(self, outputs: Tensor, target: Tensor, reduction: Literal["none", "sum"]) -> Tensor:
        logits, flat = outputs.reshape(-1, outputs.shape[-1]), target.reshape(-1)
        is_plain = not (self._smoothing or self._ignores or self._weights is not None)
        if reduction == "sum" and is_plain and takes_chunks(logits):
            loss = chunked_cross_entropy(logits, flat)
        else:
            loss = self._of_torch(logits, flat, reduction)
        if not self._z:
            return loss
        penalty = self._z * z_penalty(logits)
        if self._ignores:
            penalty = penalty * (flat != self._ignored)
        return loss + (penalty.sum() if reduction == "sum" else penalty)

    def _of_torch(self, logits: Tensor, flat: Tensor, reduction: str) -> Tensor:
        return functional.cross_entropy(
            in_fp32(logits),
            flat,
            weight=self._weights,
            ignore_index=self._ignored,
            reduction=reduction,
            label_smoothing=self._smoothing,
        )


def z_penalty(logits: Tensor) -> Tensor:
    """log(sum(exp(logits)))^2 of each row of [..., C], at least in fp32: the z-loss of PaLM
    (Chowdhery et al. 2022, arXiv:2204.02311, section 5)."""
    return torch.logsumexp(in_fp32(logits), dim=-1).square()


@final
class FocalLoss:
    """-(1 - p)^gamma log p with p = softmax(logits)[target]: down-weights well-classified rows (Lin
    et al. 2017, arXiv:1708.02002, equation 4; without its alpha). gamma 0 is cross-entropy."""

    def __init__(self, gamma: float = 2.0) -> None:
        self._gamma = gamma

    def rows(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Loss of each target."""
        logits, flat = in_fp32(outputs).reshape(-1, outputs.shape[-1]), target.reshape(-1)
        nll = functional.cross_entropy(logits, flat, reduction="none")
        # 1 - exp(-s) by expm1, which keeps its precision where p is close to 1.
        missed = -torch.expm1(-nll)
        # At 0 the slope of x^gamma is infinite for gamma < 1.
        faded = missed.clamp_min(torch.finfo(missed.dtype).tiny).pow(self._gamma)
        return (faded * nll).view(target.shape)

    def total(self, outputs: Tensor, target: Tensor) -> LossSum:
        """Summed loss."""
        return LossSum(self.rows(outputs, target).sum(), target.numel())


@final
class OrdinalLoss:
    """-sum over k of log P(y > k) where the target is above k, else log P(y <= k), for logits
    [..., C] of classes that ascend: the loss of CORAL (Cao et al. 2020, arXiv:1901.07884, equation
    4) with P(y > k) the sum of softmax(logits) above k, so that the C - 1 answers agree with each
    other. Each is the logarithm of a probability of an event, so that the true probabilities have
    the least loss."""

    def rows(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Loss of each target."""
        logs = functional.log_softmax(in_fp32(outputs), dim=-1)
        loss = torch.zeros_like(logs[..., 0])
        for rank in range(logs.shape[-1] - 1):
            below = torch.logsumexp(logs[..., : rank + 1], dim=-1)
            above = torch.logsumexp(logs[..., rank + 1 :], dim=-1)
            loss = loss - torch.where(target > rank, above, below)
        return loss

    def total(self, outputs: Tensor, target: Tensor) -> LossSum:
        """Summed loss."""
        return LossSum(self.rows(outputs, target).sum(), target.numel())


@final
class BinaryCrossEntropyLoss:
    """-(w y log p + (1 - y) log(1 - p)) with p = sigmoid(logit), fused, for logits in the targets'
    shape; y in [0, 1], so that several labels of a row are several targets.

    Args:
        positive_weight: w, the weight of a positive relative to a negative.
        label_weights: [2, L], what multiplies the loss of each of L labels that a row has not, and
            that it has; or empty for none.
    """

    def __init__(self, positive_weight: float = 1.0, label_weights: Tensor | None = None) -> None:
        self._weight = positive_weight
        self._label_weights = label_weights

    def rows(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Loss of each target."""
        logits = in_fp32(outputs).view(target.shape)
        weight = None if self._weight == 1 else torch.full_like(logits[:1], self._weight)
        truth, of_cells = target.to(logits.dtype), None
        if self._label_weights is not None:
            without, having = self._label_weights.to(logits.dtype)
            of_cells = truth * having + (1 - truth) * without
        return functional.binary_cross_entropy_with_logits(
            logits, truth, weight=of_cells, pos_weight=weight, reduction="none"
        )

    def total(self, outputs: Tensor, target: Tensor) -> LossSum:
        """Summed loss."""
        return LossSum(self.rows(outputs, target).sum(), target.numel())
