"""Contrastive and triplet losses of embeddings.

The negatives of a row are the other rows of its micro-batch, so these are the only losses that
depend on how a step is split: the micro-batch is their unit, and accumulation adds no negatives.
"""

from __future__ import annotations

import torch
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
