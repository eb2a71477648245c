"""Losses of a model that learns from a teacher, of rows and of tokens.

In the notation of Hinton et al. 2015, arXiv:1503.02531, section 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainwright.data.base.token_inputs import TEACHER_LOGS, TEACHER_TOKENS
from trainwright.data.loading.batch import Batch
from trainwright.model.model_call import call_model
from trainwright.model.row_state import projected, reading_state, state_distance
from trainwright.objective.losses import LossSum, Objective, TargetLoss, in_fp32

SOFT_TARGET = "soft_target"
"""Name of the teacher's predictions in a batch."""

_TINY = 1e-30
"""Least probability whose logarithm is taken."""

TEACHER_STATE = "teacher_state"
"""Name of its hidden states."""

_BESIDE = frozenset({SOFT_TARGET, TEACHER_STATE, "weight"})
_BESIDE_TOKENS = frozenset({TEACHER_TOKENS, TEACHER_LOGS})


@final
class Distilled:
    """(1 - weight) x the loss of the targets + weight x the distance from the teacher, for batches
    whose tensors `soft_target`, [B, C] or [B], `teacher_state` [B, D] and `weight` [B], if any, are
    no inputs.

    Of classes the distance is T^2 KL(p || q), where p are the teacher's probabilities at the
    temperature T, proportional to their power 1 / T, and q = softmax(logits / T): the factor keeps
    the gradient's size where T changes. Of numbers it is (output - teacher)^2.
    """

    def __init__(
        self, loss: TargetLoss, weight: float, temperature: float, *, classes: bool
    ) -> None:
        self._loss = loss
        self._weight = weight
        self._temperature = temperature
        self._classes = classes

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """Summed loss of a micro-batch."""
        names, inputs, target, _ = batch.supervised()
        kept = [at for at, name in enumerate(names) if name not in _BESIDE]
        outputs = call_model(
            model, tuple(names[at] for at in kept), tuple(inputs[at] for at in kept)
        )
        rows = self._weight * self._distance(in_fp32(outputs), batch[SOFT_TARGET])
        if self._weight < 1:
            rows = rows + (1 - self._weight) * self._loss.rows(outputs, target)
        if "weight" in batch:
            rows = batch["weight"] * rows
        return LossSum(rows.sum(), len(target))

    def _distance(self, outputs: Tensor, teacher: Tensor) -> Tensor:
        """Distance of each row, [B]."""
        if not self._classes:
            return (outputs.view(teacher.shape) - teacher).square()
        by = self._temperature
        if by != 1:
            teacher = torch.softmax(teacher.clamp_min(_TINY).log() / by, dim=1)
        log_q = functional.log_softmax(outputs / by, dim=1)
        return by**2 * functional.kl_div(log_q, teacher, reduction="none").sum(dim=1)


@final
class DistilledStates:
    """Another objective + factor x the distance between the hidden state of each row and that of
    the teacher, `teacher_state` [B, D] in the batch (Romero et al. 2015, arXiv:1412.6550, equation
    3). `head_of` gives the layer whose input is the state; a projection to the teacher's width is
    that of `add_projection`.
    """

    def __init__(
        self,
        objective: Objective,
        head_of: Callable[[nn.Module], nn.Linear | None],
        factor: float,
        distance: Literal["cosine", "mse"],
    ) -> None:
        self._objective = objective
        self._head_of = head_of
        self._factor = factor
        self._distance = distance

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """Summed loss of a micro-batch."""
        head = self._head_of(model)
        assert head is not None, "a model without a state was refused"
        with reading_state(head) as state:
            loss = self._objective(model, batch)
            own = in_fp32(projected(model, state()))
        rows = self._factor * state_distance(own, batch[TEACHER_STATE], self._distance)
        if "weight" in batch:
            rows = batch["weight"] * rows
        return LossSum(loss.sum + rows.sum(), loss.targets)


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
        kept = [at for at, name in enumerate(names) if name not in _BESIDE_TOKENS]
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
