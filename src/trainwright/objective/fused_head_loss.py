"""Cross-entropy of a decoder from the features before its head, in pieces: the logits of a
micro-batch are never in memory as a whole, nor is their gradient.

The gradient is computed with the loss, piece by piece, while the logits of a piece are there (fused
linear cross-entropy: Hsu et al. 2024, arXiv:2410.10989, section 3.2; Wijmans et al. 2024,
arXiv:2411.09009). What is kept for the backward pass is the gradient of the features [N, D] and of
the head [V, D].
"""

from __future__ import annotations

from typing import Any, Final, Protocol, final, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from trainwright.data.loading.batch import Batch
from trainwright.objective.losses import LossSum, in_fp32

PIECE: Final = 2**24
"""Logits at once: 64 MB in fp32."""

_AT_ONCE: Final = 2**20
"""Exponentials at once where only their sums are wanted."""


@runtime_checkable
class HeadlessDecoder(Protocol):
    """Decoder that gives what its head reads."""

    @property
    def head_weight(self) -> Float[Tensor, "V D"]:
        """Weights of the head, which has no bias."""
        ...

    def features(self, *inputs: Tensor) -> Float[Tensor, "B L D"]:
        """Inputs of the head, of which it makes the logits."""
        ...


@final
class FusedHeadLoss:
    """Summed cross-entropy of the targets of a batch that count, equal to that of `Supervised` over
    `CrossEntropyLoss` up to the order in which numbers are added.

    Args:
        label_smoothing: as of `CrossEntropyLoss`.
        z_loss: as of `CrossEntropyLoss`.
        piece: logits at once.
    """

    def __init__(
        self, label_smoothing: float = 0.0, z_loss: float = 0.0, piece: int = PIECE
    ) -> None:
        self._smoothing = label_smoothing
        self._z = z_loss
        self._piece = piece

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """Summed loss of a micro-batch."""
        _, inputs, target, mask = batch.supervised()
        assert isinstance(model, HeadlessDecoder), "the rules refuse other models"
        features = model.features(*inputs).flatten(0, 1)
        wanted, count = target.flatten(), target.numel()
        if not isinstance(mask, str):
            counted = mask.tensor.flatten()
            features, wanted, count = features[counted], wanted[counted], mask.targets
        settings = (self._smoothing, self._z, self._piece)
        loss: Tensor = _Fused.apply(features, model.head_weight, wanted, settings)  # type: ignore[no-untyped-call]
        return LossSum(loss, count)


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Float[Tensor, "N D"],
        weight: Float[Tensor, "V D"],
        target: Int[Tensor, " N"],
        settings: tuple[float, float, int],
    ) -> Tensor:
        smoothing, z, piece = settings
        needs_features, needs_weight = ctx.needs_input_grad[:2]
        total = torch.zeros((), dtype=torch.float32, device=features.device)
        of_features = torch.empty_like(features) if needs_features else None
        of_weight = torch.zeros_like(weight) if needs_weight else None
        rows, weight = max(1, piece // weight.shape[0]), _in_products(weight)
        for start in range(0, len(features), rows):
            some, wanted = features[start : start + rows], target[start : start + rows]
            logits = functional.linear(some, weight)
            loss, slope = _of_piece(in_fp32(logits), wanted, smoothing, z)
            total += loss
            slope = slope.to(logits.dtype)
            if of_features is not None:
                of_features[start : start + rows] = slope @ weight
            if of_weight is not None:
                of_weight += (slope.T @ some.to(slope.dtype)).to(of_weight.dtype)
        ctx.of_features, ctx.of_weight = of_features, of_weight
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        each = (ctx.of_features, ctx.of_weight)
        return (*(None if one is None else one.mul_(gradients[0]) for one in each), None, None)


def _in_products(weight: Tensor) -> Tensor:
    """The head in the type of its products, cast once and not for each piece."""
    device = weight.device.type
    if weight.dtype == torch.float32 and torch.is_autocast_enabled(device):
        return weight.to(torch.get_autocast_dtype(device))
    return weight


def _of_piece(logits: Tensor, target: Tensor, smoothing: float, z: float) -> tuple[Tensor, Tensor]:
    """Summed loss of some rows, and its gradient in the logits [n, V], which takes their place.

    With s = log sum exp(x): loss = s - (1 - e) x_target - e mean(x) + z s^2, gradient =
    (1 + 2 z s) softmax(x) - (1 - e) onehot - e / V.
    """
    # Some rows at a time: the exponentials of all of them would take as much memory again.
    some = torch.split(logits, max(1, _AT_ONCE // logits.shape[1]))
    sums = torch.cat([torch.logsumexp(one, dim=1) for one in some])
    rows = torch.arange(len(target), device=target.device)
    loss = sums.sum() - (1 - smoothing) * logits[rows, target].sum()
    if smoothing:
        loss = loss - smoothing * logits.mean(dim=1).sum()
    if z:
        loss = loss + z * sums.square().sum()
    slope = logits.sub_(sums[:, None]).exp_()
    if z:
        slope.mul_((1 + 2 * z * sums)[:, None])
    if smoothing:
        slope.sub_(smoothing / logits.shape[1])
    slope[rows, target] -= 1 - smoothing
    return loss, slope
