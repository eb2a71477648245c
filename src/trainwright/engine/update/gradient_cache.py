"""Gradient caching: a loss over all rows of a step, however they are divided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

import torch
from torch import Tensor, nn

from trainwright.data.loading.batch import Batch
from trainwright.engine.guards.rng_rewind import StepGenerators
from trainwright.engine.update.look_ahead import Forward
from trainwright.model.model_call import call_model
from trainwright.objective.losses import LossSum, TargetLoss


class _Seen(NamedTuple):
    """A micro-batch, the loss of each of its rows, and the gradient of the summed loss of the whole
    step by its outputs."""

    batch: Batch
    losses: Tensor
    gradient: Tensor


@final
class GradientCache:
    """Objective of a loss in which all rows of a step interact (Gao et al. 2021, arXiv:2101.06983,
    section 3.2).

    `look_ahead` computes the outputs of all micro-batches without their graphs, and the gradient
    of the loss of the whole step by them. Each micro-batch then runs again, with the same random
    numbers, and continues that gradient to the weights: the same update as that of the whole
    step at once, for another forward pass, and the activations of one micro-batch. A step of
    one micro-batch has its loss directly.
    """

    def __init__(self, loss: TargetLoss) -> None:
        self._loss = loss
        self._numbers = StepGenerators()
        self._seen: list[_Seen] = []

    def look_ahead(
        self, model: nn.Module, micro_batches: Sequence[Batch], forward: Forward
    ) -> None:
        """Cache the gradients of the outputs of a step."""
        self._seen.clear()
        if len(micro_batches) < 2:
            return
        self._numbers.keep()
        with torch.no_grad():
            outputs = []
            for batch in micro_batches:
                with forward():
                    outputs.append(outputs_for(model, batch))
        self._numbers.put_back()
        sizes = [len(one) for one in outputs]
        whole = torch.cat(outputs).requires_grad_()
        target = torch.cat([batch.target for batch in micro_batches])
        with torch.enable_grad():
            losses = self._loss.rows(whole, target)
            (gradient,) = torch.autograd.grad(losses.sum(), whole)
        of_each = torch.split(losses.detach(), sizes), torch.split(gradient, sizes)
        self._seen = list(map(_Seen, micro_batches, *of_each))

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """Summed loss of a micro-batch, with the gradient of the whole step."""
        outputs = outputs_for(model, batch)
        if not self._seen:
            return self._loss.total(outputs, batch.target)
        seen = self._seen.pop(0)
        assert seen.batch is batch, "the passes follow the order of the look ahead"
        # The value is the loss, the gradient the cached one.
        through = (outputs * seen.gradient).sum()
        return LossSum(seen.losses.sum() + (through - through.detach()), len(outputs))


def outputs_for(model: nn.Module, batch: Batch) -> Tensor:
    """Outputs of a model for the inputs of a batch."""
    names, inputs, _, _ = batch.supervised()
    return call_model(model, names, inputs)
