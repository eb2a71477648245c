"""Losses of the order of the rows of a query. A query is one target, whatever its number of rows,
and its loss depends on no other query: sums over micro-batches and ranks are those of the step."""

from __future__ import annotations

from typing import Final, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainwright.data.loading.batch import Batch, as_batch
from trainwright.model.model_call import call_model
from trainwright.objective.losses import LossSum, TargetLoss, in_fp32

NO_ROW: Final = -1.0
"""The target where a query has no row; no relevance is negative."""


@final
class ListNetLoss:
    """-sum_i P_i log softmax(s)_i over the rows of a query with P = softmax(relevance), for scores
    [B, W] and relevances [B, W] with `NO_ROW` behind the end of a query (Cao et al. 2007, ICML,
    doi:10.1145/1273496.1273513, equation 4.2 with the top-one probability)."""

    def rows(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Loss of each query [B]."""
        there = target >= 0
        least = torch.finfo(torch.float32).min
        chances = torch.softmax(target.masked_fill(~there, least), dim=1)
        logs = torch.log_softmax(in_fp32(outputs).masked_fill(~there, least), dim=1)
        return -(chances * logs.masked_fill(~there, 0.0)).sum(dim=1)

    def total(self, outputs: Tensor, target: Tensor) -> LossSum:
        """Summed loss and the number of queries."""
        return LossSum(self.rows(outputs, target).sum(), len(target))


@final
class RankNetLoss:
    """log(1 + exp(s_j - s_i)), averaged over the pairs of rows of a query in which i is more
    relevant than j; 0 for a query without such a pair (Burges et al. 2005, ICML,
    doi:10.1145/1102351.1102363, equation 3 with sigma 1). Shapes are those of `ListNetLoss`; it
    needs B x W x W numbers."""

    def rows(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Loss of each query [B]."""
        scores = in_fp32(outputs)
        pairs = (target[:, :, None] > target[:, None, :]) & (target >= 0)[:, None, :]
        losses = functional.softplus(scores[:, None, :] - scores[:, :, None])
        counts = pairs.sum(dim=(1, 2)).clamp_min(1)
        return losses.masked_fill(~pairs, 0.0).sum(dim=(1, 2)) / counts

    def total(self, outputs: Tensor, target: Tensor) -> LossSum:
        """Summed loss and the number of queries."""
        return LossSum(self.rows(outputs, target).sum(), len(target))


@final
class ByQuery:
    """Loss of micro-batches of queries, tensors [B, W, ...] with a mask. The model scores the rows
    that there are, in one batch of rows; which ones is known on the host."""

    def __init__(self, loss: TargetLoss) -> None:
        self._loss = loss

    def __call__(self, model: nn.Module, batch: Batch | tuple[Tensor, ...]) -> LossSum:
        """Summed loss of a micro-batch."""
        names, inputs, target, mask = as_batch(batch).supervised()
        assert not isinstance(mask, str), "a micro-batch of queries says where their rows end"
        places = mask.host.reshape(-1).nonzero()[:, 0].to(target.device, non_blocking=True)
        rows = [one.flatten(0, 1).index_select(0, places) for one in inputs]
        outputs = call_model(model, names, rows)
        scores = outputs.new_zeros(target.numel()).index_copy(0, places, outputs.reshape(-1))
        relevance = target.masked_fill(~mask.tensor, NO_ROW)
        return self._loss.total(scores.view(target.shape), relevance)
