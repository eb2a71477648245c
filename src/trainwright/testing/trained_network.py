"""A small network of several ranks, and steps of rows with masks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import final

import torch
from torch import Tensor, nn

from trainwright.data.loading.batch import Batch
from trainwright.data.loading.feed import StepBatches
from trainwright.distributed.strategy import Strategy
from trainwright.distributed.tensor_shards import is_sharded
from trainwright.engine.execution.precision import Precision
from trainwright.engine.update.gradient_clipping import Clipping
from trainwright.engine.update.step import OptimizerStep
from trainwright.objective.losses import LossSum, Objective
from trainwright.testing.fake_strategy import STEP_ROWS, network_of_rank, own_batches
from trainwright.tracking.events import StepOutcome

_NAMES = ("input", "target", "counted")


@final
class TrainedNetwork:
    """A model whose first weights differ from rank to rank, and the step that trains it."""

    def __init__(
        self,
        strategy: Strategy,
        max_norm: float = math.inf,
        objective: Objective | None = None,
        *,
        clipping: Clipping | None = None,
        precision: Precision | None = None,
        network: Callable[[int], nn.Module] = network_of_rank,
        frozen: bool = False,
    ) -> None:
        self._strategy = strategy
        own = network(strategy.rank)
        next(own.children()).requires_grad_(not frozen)
        self.model = strategy.wrap(own)
        # Without it Adam would make a full step of a gradient that is rounding alone.
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05, eps=1e-3)
        self.step = OptimizerStep(
            self.model,
            objective or masked_errors,
            self.optimizer,
            max_norm=max_norm,
            clipping=clipping,
            precision=precision,
            strategy=strategy,
        )

    def make(self, work: StepBatches) -> StepOutcome:
        """One update with this rank's micro-batches of a step."""
        return self.step(own_batches(work, self._strategy))

    def weights(self) -> list[Tensor]:
        """A copy of the weights, whole where ranks hold shards of them."""
        held = [one.detach() for one in self.model.parameters()]
        return [one.full_tensor() if is_sharded(one) else one.clone() for one in held]


def masked_errors(model: nn.Module, batch: Batch) -> LossSum:
    """Squared errors of the values that the mask counts as targets."""
    x, y, mask = batch
    return LossSum(((model(x) - y).square() * mask).sum(), int(mask.sum()))


def masked_steps(accumulate: int) -> Sequence[StepBatches]:
    """Whole steps of rows with 0 to 2 targets each."""
    draw = torch.Generator().manual_seed(17)
    works, samples = [], 0
    for rows in STEP_ROWS:
        x, y = (torch.randn(rows, n, generator=draw, dtype=torch.float64) for n in (3, 2))
        lengths = torch.randint(0, 3, (rows, 1), generator=draw)
        lengths[0] = 2
        mask = (torch.arange(2) < lengths).double()
        parts = zip(*(torch.tensor_split(one, accumulate) for one in (x, y, mask)), strict=True)
        samples += rows
        batches = [Batch(dict(zip(_NAMES, part, strict=True))) for part in parts]
        works.append(StepBatches(batches, int(mask.sum()), rows, samples, 0, 0.0))
    return works


@final
class RankRows:
    """This rank's micro-batches of the same steps again and again; `accumulate` of all ranks."""

    def __init__(self, strategy: Strategy, accumulate: int) -> None:
        self._strategy = strategy
        self._works = masked_steps(accumulate)
        self._made = 0

    def next_step(self) -> StepBatches:
        """Rows of the next step."""
        self._made += 1
        return own_batches(self._works[(self._made - 1) % len(self._works)], self._strategy)

    def seek(self, samples: int) -> None:
        """Continue after so many rows of the first round."""
        self._made = [0, *(work.samples for work in self._works)].index(samples)


def tied_network(rank: int) -> nn.Module:
    """Two layers of one weight, and a third."""
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    second.weight = first.weight
    model = nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), nn.Linear(3, 2)).double()
    draw = torch.Generator().manual_seed(rank)
    with torch.no_grad():
        for parameter in model.parameters():
            values = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
            parameter.copy_(values / 3)
    return model
