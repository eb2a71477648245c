"""What a network's validation measures. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import final

import torch
from torch import nn

from trainwright.contract.metric import METRICS, Metric
from trainwright.contract.training import Training
from trainwright.data.pixels import Pixels
from trainwright.data.prepared import Prepared
from trainwright.data.store import Batch
from trainwright.data.target import Classes, NextToken
from trainwright.evaluation.answers import Answers, answers_of
from trainwright.evaluation.metrics import measure
from trainwright.objective.losses import Objective, Supervised, TargetLoss
from trainwright.planner.plan import Plan
from trainwright.predictor.network import NetworkScorer
from trainwright.run.feeding import part_tensors

_VALIDATION_VALUES = 2**20

ValidationLoss = Callable[[Answers], float]
"""The loss on the validation part, for which the answers have been made already."""


@final
class Validation:
    """The validation loss and metrics of a network."""

    def __init__(
        self, prepared: Prepared, scorer: NetworkScorer, plan: Plan, loss: ValidationLoss
    ) -> None:
        self._part = prepared.validation
        self._target = prepared.target
        self._scorer = scorer
        self._loss = loss
        self._section = plan.contract.metric
        training = plan.contract.training
        watched = (_watched(training), training.checkpointing.rank_by)
        names = (*(name.removeprefix("val_") for name in watched), self._section.name)
        self._names = dict.fromkeys(name for name in names if name in METRICS)

    def __call__(self) -> Mapping[str, float]:
        """`val_loss`, the watched metric and the contract's, on all validation rows."""
        scores = self._scorer.score(self._part.inputs)
        positive = self._target.positive if isinstance(self._target, Classes) else -1
        answers = answers_of(self._part.target, scores, positive)
        values = {f"val_{name}": measure(name, answers, self._section) for name in self._names}
        return {"val_loss": self._loss(answers), **values}


def validation_loss(
    loss: TargetLoss, model: nn.Module, prepared: Prepared, device: torch.device
) -> ValidationLoss:
    """The mean training loss over the validation rows; of a text its nats per token."""
    if isinstance(prepared.target, NextToken):
        return lambda answers: measure("nats_per_token", answers, Metric())
    if isinstance(prepared.features, Pixels):
        return lambda answers: _loss_of_answers(loss, answers, device)
    batch = part_tensors(prepared.validation, prepared, device)
    return _LossOverRows(Supervised(loss), model, batch)


def _loss_of_answers(loss: TargetLoss, answers: Answers, device: torch.device) -> float:
    """The mean loss of probabilities that are there already: a second pass over images costs more
    than it tells. log p are logits of p; their z-loss is 0."""
    scores = torch.tensor(answers.scores, dtype=torch.float32, device=device)
    truth = torch.tensor(answers.truth, device=device)
    total = loss.total(scores.clamp_min(torch.finfo(torch.float32).tiny).log(), truth)
    return float(total.sum) / total.targets


@final
class _LossOverRows:
    def __init__(self, objective: Objective, model: nn.Module, batch: Batch) -> None:
        self._objective = objective
        self._model = model
        self._batch = batch

    def __call__(self, _: Answers) -> float:
        total, count = 0.0, 0
        rows = _VALIDATION_VALUES // max(1, sum(one[0].numel() for one in self._batch))
        rows = min(8192, max(64, rows))
        for start in range(0, len(self._batch[0]), rows):
            batch = tuple(tensor[start : start + rows] for tensor in self._batch)
            loss_sum, targets = self._objective(self._model, batch)
            total += float(loss_sum)
            count += targets
        return total / count


def _watched(training: Training) -> str:
    return "val_loss" if training.early_stopping == "off" else training.early_stopping.metric
