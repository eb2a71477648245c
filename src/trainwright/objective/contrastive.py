"""Contrastive and triplet losses of embeddings.

The negatives of a row are the other rows that a loss is given, so it depends on how a step is
split: of a micro-batch alone, accumulation adds no negatives. `engine.update.gradient_cache` gives
`ContrastiveLoss` all pairs of a step.
"""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from trainwright.objective.losses import LossSum, in_fp32


def info_nce(queries: Tensor, keys: Tensor, temperature: float = 0.07) -> LossSum:
    """Sum over i of -log(exp(s_ii) / sum_j exp(s_ij)), s_ij = cos(query i, key j) / temperature.

    Queries and keys are [B, D], paired by row (van den Oord et al. 2018, arXiv:1807.03748, equation
    4, with the cosine as critic). The count is B.
    """
    assert queries.shape == keys.shape
    first = functional.normalize(queries, dim=1)
    second = functional.normalize(keys, dim=1)
    logits = in_fp32(first @ second.T / temperature)
    target = torch.arange(len(queries), device=queries.device)
    return LossSum(functional.cross_entropy(logits, target, reduction="sum"), len(queries))


def symmetric_info_nce(first: Tensor, second: Tensor, temperature: float = 0.07) -> LossSum:
    """Mean of `info_nce` in both directions, as CLIP pairs images and texts (Radford et al. 2021,
    arXiv:2103.00020, figure 3). The count is B."""
    there, back = info_nce(first, second, temperature), info_nce(second, first, temperature)
    return LossSum((there.sum + back.sum) / 2, there.targets)


def nt_xent(first: Tensor, second: Tensor, temperature: float = 0.5) -> LossSum:
    """Sum over all 2B views i of -log(exp(s_ij) / sum_{k != i} exp(s_ik)), j the other view of i.

    `first` and `second` [B, D] are two views of the same rows, s the cosine over `temperature`
    (Chen et al. 2020, SimCLR, arXiv:2002.05709, equation 1). The count is 2B.
    """
    assert first.shape == second.shape
    views = functional.normalize(torch.cat([first, second]), dim=1)
    logits = in_fp32(views @ views.T / temperature)
    itself = torch.eye(len(views), dtype=torch.bool, device=views.device)
    logits = logits.masked_fill(itself, float("-inf"))
    rows = torch.arange(len(views), device=views.device)
    other = rows.roll(len(first))
    return LossSum(functional.cross_entropy(logits, other, reduction="sum"), len(views))


@final
class ContrastiveLoss:
    """Symmetric InfoNCE of embeddings [B, 2 D], of images beside those of texts, whose products are
    logits; `target` [B, 2] are codes of image and text.

    Pairs that share an image or a text are no negatives of each other: only the logit of the
    pair itself counts. As `symmetric_info_nce`, it depends on all pairs that it is
    given.
    """

    def rows(
        self, outputs: Float[Tensor, "B outputs"], target: Int[Tensor, "B 2"]
    ) -> Float[Tensor, " B"]:
        """Loss of each pair."""
        images, texts = in_fp32(outputs).chunk(2, dim=1)
        logits = (images @ texts.T).masked_fill(shared_pairs(target), float("-inf"))
        right = torch.arange(len(logits), device=logits.device)
        there = functional.cross_entropy(logits, right, reduction="none")
        back = functional.cross_entropy(logits.T, right, reduction="none")
        return (there + back) / 2

    def total(self, outputs: Tensor, target: Tensor) -> LossSum:
        """Their sum; the count is B."""
        return LossSum(self.rows(outputs, target).sum(), len(target))


@final
class PassageLoss:
    """InfoNCE of embeddings [B, (2 + K) D] of queries, of passages and of K hard negatives each,
    whose products are logits (DPR: Karpukhin et al. 2020, arXiv:2004.04906, equation 2, with the
    hard negatives of all rows).

    `target` [B, 2 + K + M] are the codes of query, passage, hard negatives (-1 for none) and of the
    M right passages of the query (-1 behind the end). Candidates of a query are all passages and
    hard negatives of all rows, each different text once; but no other right passage of the query,
    in whatever row it stands. As `info_nce`, the loss depends on all rows that it is given.
    `width` is D.
    """

    def __init__(self, width: int) -> None:
        self._width = width

    def rows(
        self, outputs: Float[Tensor, "B outputs"], target: Int[Tensor, "B codes"]
    ) -> Float[Tensor, " B"]:
        """Loss of each query."""
        count = outputs.shape[1] // self._width - 2
        queries, passages, *hard = torch.split(in_fp32(outputs), self._width, dim=1)
        logits = queries @ torch.cat([passages, *hard]).T
        wrong = ~excluded_candidates(target, count)
        right = torch.arange(len(logits), device=logits.device)
        allowed = wrong.scatter(1, right[:, None], value=True)
        kept = logits.masked_fill(~allowed, float("-inf"))
        return functional.cross_entropy(kept, right, reduction="none")

    def total(self, outputs: Tensor, target: Tensor) -> LossSum:
        """Their sum; the count is B."""
        return LossSum(self.rows(outputs, target).sum(), len(target))


def excluded_candidates(target: Int[Tensor, "B codes"], negatives: int) -> Bool[Tensor, "B C"]:
    """Which candidates, all passages and then the first, second, ... hard negatives of all rows,
    are no negatives of a query: those that are none, those that are right, and copies of others.
    """
    codes = target[:, 1 : 2 + negatives].T.flatten()
    right = (codes[None, :, None] == target[:, None, 2 + negatives :]).any(dim=2)
    places = torch.arange(len(codes), device=codes.device)
    is_copy = ((codes[:, None] == codes[None]) & (places[:, None] > places[None])).any(dim=1)
    excluded: Tensor = right | is_copy | (codes < 0)
    return excluded


def shared_pairs(target: Int[Tensor, "B 2"]) -> Bool[Tensor, "B B"]:
    """Which two different pairs share an image or a text."""
    equal = (target[:, None] == target[None]).any(dim=2)
    return equal & ~torch.eye(len(target), dtype=torch.bool, device=target.device)


def triplet(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0) -> LossSum:
    """Sum over rows of max(0, |a - p| - |a - n| + margin), Euclidean distances of [B, D] (Schroff
    et al. 2015, FaceNet, arXiv:1503.03832, equation 3, with distances not squared, as in torch).
    The count is B: a triplet that is far enough apart counts with loss 0."""
    loss = functional.triplet_margin_loss(
        in_fp32(anchor),
        in_fp32(positive),
        in_fp32(negative),
        margin=margin,
        eps=0.0,
        reduction="sum",
    )
    return LossSum(loss, len(anchor))
