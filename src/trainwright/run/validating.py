"""What a network's validation measures. Needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import nn

from trainwright.contract.metric import METRICS
from trainwright.contract.training import Training
from trainwright.data.feed import Batch
from trainwright.data.prepare import Prepared
from trainwright.data.table import Part
from trainwright.data.target import Numbers
from trainwright.evaluation.answers import answers_of
from trainwright.evaluation.metrics import measure
from trainwright.objective.losses import Objective
from trainwright.planner.plan import Plan
from trainwright.predictor.network import NetworkScorer

_ROWS = 8192


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
        watched = _watched(plan.contract.training).removeprefix("val_")
        self._names = dict.fromkeys(
            name for name in (watched, self._section.name) if name in METRICS
        )

    def __call__(self) -> Mapping[str, float]:
        """`val_loss`, the watched metric and the contract's, on all validation rows."""
        scores = self._scorer.score(self._part.inputs)
        positive = -1 if isinstance(self._target, Numbers) else self._target.positive
        answers = answers_of(self._part.target, scores, positive)
        values = {f"val_{name}": measure(name, answers, self._section) for name in self._names}
        return {"val_loss": self._loss(), **values}


@final
class ValidationLoss:
    """The mean training objective over the validation rows."""

    def __init__(
        self, objective: Objective, model: nn.Module, prepared: Prepared, device: torch.device
    ) -> None:
        self._objective = objective
        self._model = model
        self._batch = tensors_of(prepared.validation, prepared, device)

    def __call__(self) -> float:
        """Its value now, with the weights as they are."""
        total, count = 0.0, 0
        for start in range(0, len(self._batch[0]), _ROWS):
            batch = tuple(tensor[start : start + _ROWS] for tensor in self._batch)
            loss_sum, targets = self._objective(self._model, batch)
            total += float(loss_sum)
            count += targets
        return total / count


def tensors_of(part: Part, prepared: Prepared, device: torch.device) -> Batch:
    """Numeric columns, categories and the target as the objective takes it, on the device."""
    target = torch.tensor(part.target)
    if isinstance(prepared.target, Numbers):
        target = ((target - prepared.target.mean) / prepared.target.deviation).float()
    tensors = (
        torch.tensor(part.inputs.numeric),
        torch.tensor(part.inputs.categories),
        target,
    )
    return tuple(tensor.to(device) for tensor in tensors)


def _watched(training: Training) -> str:
    return "val_loss" if training.early_stopping == "off" else training.early_stopping.metric
