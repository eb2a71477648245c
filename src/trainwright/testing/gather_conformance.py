"""Conformance checks of distribution strategies: rows that are gathered, a loss over them, and
evaluations that the ranks divide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from trainwright.data.loading.batch import Batch
from trainwright.data.loading.feed import StepBatches
from trainwright.distributed.strategy import SingleProcess, Strategy
from trainwright.engine.execution.adaptive_eval_batch import AdaptiveEvalBatch
from trainwright.engine.update.gradient_cache import GradientCache
from trainwright.engine.update.oom_policy import SplitOnOutOfMemory
from trainwright.engine.update.step import OptimizerStep
from trainwright.objective.contrastive import ContrastiveLoss
from trainwright.testing.fake_strategy import (
    NO_MEMORY,
    STEP_ROWS,
    assert_same_outcome,
    assert_same_weights,
    network_of_rank,
    own_batches,
)
from trainwright.tracking.events import StepOutcome


def check_gather(strategy: Strategy) -> Sequence[float]:
    """Rows of all ranks in their order, of different numbers and types; none on one of them."""
    rank, size = strategy.rank, strategy.world_size
    told: list[float] = []
    for kind in (torch.float64, torch.int64):
        own = torch.full((rank, 2), rank, dtype=kind, requires_grad=kind.is_floating_point)
        rows = strategy.gather(own)
        expected = torch.cat([torch.full((one, 2), one, dtype=kind) for one in range(size)])
        assert rows.dtype == kind
        assert not rows.requires_grad
        assert torch.equal(rows, expected)
        told += [float(one) for one in rows.flatten()]
    return [size, *told]


def check_shared_loss(strategy: Strategy) -> Sequence[float]:
    """A loss over all rows of a step, in one micro-batch and in two, where ranks have different
    numbers of rows: the update of a single process in fp64. Once memory runs out on one rank."""
    told: list[float] = []
    for accumulate in (1, 2):
        ours, alone = _Matched(strategy), _Matched(SingleProcess())
        for work in _pairs(accumulate):
            assert_same_outcome(ours.make(work), alone.make(work))
        told += assert_same_weights(ours.weights(), alone.weights())
    ours, alone = _Matched(strategy, fails=True), _Matched(SingleProcess())
    for work in _pairs(2):
        assert_same_outcome(ours.make(work), alone.make(work))
    return [*told, *assert_same_weights(ours.weights(), alone.weights())]


def check_evaluation(strategy: Strategy) -> Sequence[float]:
    """Each rank makes its share of the passes, and has the scores of all rows in their order; also
    where there are fewer portions than ranks. Once memory runs out on the last rank: then all
    repeat the evaluation with half of the rows."""
    rows = torch.arange(36.0, dtype=torch.float64).view(18, 2)
    told: list[float] = []
    for most, fails in ((18, False), (4, False), (18, True), (4, True)):
        portions = AdaptiveEvalBatch()
        scorer = _Scorer(fails and strategy.rank == strategy.world_size - 1)

        def evaluate() -> Tensor:
            return portions.score_each(torch.split(rows, portions.rows(most)), scorer)  # noqa: B023

        with portions.share_among(strategy):
            assert torch.equal(portions.complete(evaluate), rows.sin())
            scorer.passes = 0
            assert torch.equal(evaluate(), rows.sin())
        assert portions.rows(most) == (most // 2 if fails else most)
        passes = -(-len(rows) // portions.rows(most))
        assert scorer.passes == -(-passes // strategy.world_size)
        told.append(passes)
    return told


@final
class _Scorer:
    """Scores rows, and counts its passes; with `fails`, memory runs out in the first one."""

    def __init__(self, fails: bool) -> None:
        self._fails = fails
        self.passes = 0

    def __call__(self, rows: Tensor) -> Tensor:
        self.passes += 1
        if self._fails:
            self._fails = False
            raise RuntimeError(NO_MEMORY)
        return rows.sin()


@final
class _Matched:
    """A model that is trained by a contrastive loss over the rows of all ranks; with `fails`,
    memory runs out on the last rank in the second pass of the first step."""

    def __init__(self, strategy: Strategy, *, fails: bool = False) -> None:
        self._strategy = strategy
        self.model = strategy.wrap(network_of_rank(strategy.rank))
        self._passes = 0
        if fails and strategy.rank == strategy.world_size - 1:
            self.model.register_forward_pre_hook(self._fail)
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05, eps=1e-3)
        cache = GradientCache(ContrastiveLoss())
        step = OptimizerStep(self.model, cache, optimizer, strategy=strategy)
        step = step.looking_ahead(cache.look_ahead)
        self.step = step.handling_memory(SplitOnOutOfMemory())

    def make(self, work: StepBatches) -> StepOutcome:
        """One update with this rank's micro-batches of a step."""
        return self.step(own_batches(work, self._strategy))

    def weights(self) -> list[Tensor]:
        """A copy of the weights."""
        return [one.detach().clone() for one in self.model.parameters()]

    def _fail(self, *_: object) -> None:
        self._passes += 1
        if self._passes == 2:
            raise RuntimeError(NO_MEMORY)


def _pairs(accumulate: int) -> Sequence[StepBatches]:
    """Whole steps of rows with codes, some of which they share."""
    draw = torch.Generator().manual_seed(19)
    works, samples = [], 0
    for rows in STEP_ROWS:
        x = torch.randn(rows, 3, generator=draw, dtype=torch.float64)
        codes = torch.stack([torch.arange(rows) // 2, torch.arange(rows) % 5], dim=1)
        parts = zip(*(torch.tensor_split(one, accumulate) for one in (x, codes)), strict=True)
        samples += rows
        batches = [Batch(dict(zip(("input", "target"), part, strict=True))) for part in parts]
        works.append(StepBatches(batches, rows, rows, samples, 0, 0.0))
    return works
