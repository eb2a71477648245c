"""What sees all micro-batches of a step before its pass: a loss over all rows, by cached
gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, final

import torch
from torch import Tensor, nn

from trainwright.data.loading.batch import Batch
from trainwright.distributed.strategy import Strategy
from trainwright.engine.execution.oom import is_out_of_memory
from trainwright.engine.guards.rollback import StepGenerators
from trainwright.model.model_call import call_model
from trainwright.objective.losses import LossSum, TargetLoss

Forward = Callable[[], AbstractContextManager[Any]]
"""Number format of a forward pass."""


class LookAhead(Protocol):
    """Sees all micro-batches of a step before its passes: those of this rank, and what the strategy
    gathers of others.

    It must leave gradients, running statistics and random numbers as they were, and may be called
    again for the same step in other micro-batches. A rank that it fails on for lack of memory must
    not leave the others waiting.
    """

    def __call__(
        self,
        model: nn.Module,
        micro_batches: Sequence[Batch],
        forward: Forward,
        strategy: Strategy,
        draw: Callable[[int], None],
    ) -> None:
        """See them. `draw(index)` is called before the pass of each, as before its later ones."""
        ...


def no_look_ahead(
    model: nn.Module,
    micro_batches: Sequence[Batch],
    forward: Forward,
    strategy: Strategy,
    draw: Callable[[int], None],
) -> None:
    """Nothing to see: a micro-batch has its loss by itself."""


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
    one micro-batch on one rank has its loss directly.

    Several ranks gather their outputs, and each computes the loss of the rows of all. It takes the
    losses and gradients of its own; the sum of the gradients over the ranks is that of one process.
    """

    def __init__(self, loss: TargetLoss) -> None:
        self._loss = loss
        self._numbers = StepGenerators()
        self._seen: list[_Seen] = []

    def look_ahead(
        self,
        model: nn.Module,
        micro_batches: Sequence[Batch],
        forward: Forward,
        strategy: Strategy,
        draw: Callable[[int], None],
    ) -> None:
        """Cache the gradients of the outputs of a step."""
        self._seen.clear()
        if len(micro_batches) < 2 and strategy.world_size == 1:
            return
        try:
            of_batches = self._outputs(model, micro_batches, forward, draw)
        except (RuntimeError, MemoryError) as error:
            if is_out_of_memory(error):
                strategy.gather(torch.zeros(1, dtype=torch.int64, device=strategy.device))
            raise
        outputs = torch.cat(of_batches)
        before = _rows_before(outputs, strategy)
        if before is None:
            return  # The step is undone on all ranks: see `Strategy.reduce`.
        whole = strategy.gather(outputs).requires_grad_()
        target = strategy.gather(torch.cat([batch.target for batch in micro_batches]))
        with torch.enable_grad():
            losses = self._loss.rows(whole, target)
            (gradient,) = torch.autograd.grad(losses.sum(), whole)
        own, sizes = slice(before, before + len(outputs)), [len(one) for one in of_batches]
        of_each = torch.split(losses.detach()[own], sizes), torch.split(gradient[own], sizes)
        self._seen = list(map(_Seen, micro_batches, *of_each))

    def _outputs(
        self,
        model: nn.Module,
        micro_batches: Sequence[Batch],
        forward: Forward,
        draw: Callable[[int], None],
    ) -> list[Tensor]:
        """Outputs of each micro-batch, without their graphs; no random number is used up."""
        self._numbers.keep()
        outputs = []
        with torch.no_grad():
            for index, batch in enumerate(micro_batches):
                draw(index)
                with forward():
                    outputs.append(outputs_for(model, batch))
        self._numbers.put_back()
        return outputs

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


def _rows_before(outputs: Tensor, strategy: Strategy) -> int | None:
    """Rows of the ranks before this one; None where memory ran out on one of them, which has said 0
    in the place of its rows and one."""
    said = torch.tensor([len(outputs) + 1], device=strategy.device)
    rows = strategy.gather(said)
    if not bool(rows.all()):
        return None
    return int((rows[: strategy.rank] - 1).sum())


def outputs_for(model: nn.Module, batch: Batch) -> Tensor:
    """Outputs of a model for the inputs of a batch."""
    names, inputs, _, _ = batch.supervised()
    return call_model(model, names, inputs)
