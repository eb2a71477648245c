"""Loss of a decoder that learns from another one, in the notation of Hinton et al. 2015,
arXiv:1503.02531, section 2."""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainwright.data.base.inputs.soft_tokens import TEACHER_LOGS, TEACHER_TOKENS
from trainwright.data.loading.batch import Batch
from trainwright.model.model_call import call_model
from trainwright.objective.losses import LossSum, TargetLoss, in_fp32

_BESIDE = frozenset({TEACHER_TOKENS, TEACHER_LOGS})


@final
class DistilledTokens:
    """(1 - weight) x the loss of the targets + weight x T^2 KL(p || q) at each target, for batches
    whose tensors `teacher_tokens` [B, L, K] and `teacher_logs` [B, L, K + 1] are no inputs.

    p and q are the distributions of the teacher and of the model at the temperature T over the K
    tokens and all others together, so that the distance is at most that over the whole vocabulary,
    and equal to it with K = V.
    """

    def __init__(self, loss: TargetLoss, weight: float, temperature: float) -> None:
        self._loss = loss
        self._weight = weight
        self._temperature = temperature

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """Summed loss of a micro-batch."""
        names, inputs, target, mask = batch.supervised()
        kept = [at for at, name in enumerate(names) if name not in _BESIDE]
        outputs = call_model(
            model, tuple(names[at] for at in kept), tuple(inputs[at] for at in kept)
        )
        tokens, logs = batch[TEACHER_TOKENS].long(), batch[TEACHER_LOGS]
        rows = self._weight * self._distance(in_fp32(outputs), tokens, logs)
        if isinstance(mask, str):
            if self._weight < 1:
                rows = rows + (1 - self._weight) * self._loss.rows(outputs, target)
            return LossSum(rows.sum(), target.numel())
        if self._weight < 1:
            wanted = torch.where(mask.tensor, target, 0)
            rows = rows + (1 - self._weight) * self._loss.rows(outputs, wanted)
        return LossSum((rows * mask.tensor).sum(), mask.targets)

    def _distance(self, outputs: Tensor, tokens: Tensor, logs: Tensor) -> Tensor:
        """T^2 KL(p || q) at each position, [B, L]."""
        log_q = functional.log_softmax(outputs / self._temperature, dim=-1)
        log_p = logs[..., :-1]
        found = (log_p.exp() * (log_p - log_q.gather(-1, tokens))).sum(dim=-1)
        if tokens.shape[-1] < outputs.shape[-1]:
            others = log_q.scatter(-1, tokens, -math.inf).logsumexp(dim=-1)
            found = found + logs[..., -1].exp() * (logs[..., -1] - others)
        return self._temperature**2 * found
