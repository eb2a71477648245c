"""Steps of a small model whose rows are divided among ranks, and what must be equal after them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor, nn

from trainwright.data.loading.feed import StepBatches
from trainwright.distributed.rank_share import RankShare
from trainwright.distributed.strategy import Strategy
from trainwright.tracking.events import StepOutcome, read_number

STEP_ROWS: Final = (18, 7, 3, 5)
"""Rows of each step: four ranks have no equal shares, and one has no row of the third step."""

NO_MEMORY: Final = "DefaultCPUAllocator: can't allocate memory"
_FAR = 1e-12


def network_of_rank(seed: int) -> nn.Module:
    """A small network in fp64, drawn by a seed."""
    draw = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    with torch.no_grad():
        for one in model.parameters():
            one.copy_(torch.randn(one.shape, generator=draw, dtype=torch.float64) / 3)
    return model


def own_rows(work: StepBatches, strategy: Strategy) -> StepBatches:
    """This rank's rows of each micro-batch. Targets and rows remain those of the whole step."""
    share = RankShare(strategy.rank, strategy.world_size)
    batches = [batch.apply(lambda one: one[share.bounds(len(one))]) for batch in work.micro_batches]
    return work._replace(micro_batches=batches)


def assert_same_outcome(ours: StepOutcome, alone: StepOutcome) -> None:
    """What a step tells is what a single process tells, up to rounding."""
    for one, other in (
        (ours.loss, alone.loss),
        (ours.gradient_norm, alone.gradient_norm),
        (ours.found_nonfinite, alone.found_nonfinite),
        (ours.clipped, alone.clipped),
    ):
        assert math.isclose(read_number(one), read_number(other), rel_tol=_FAR, abs_tol=_FAR)
    assert (ours.rows, ours.targets, ours.samples) == (alone.rows, alone.targets, alone.samples)


def assert_same_weights(ours: Sequence[Tensor], alone: Sequence[Tensor]) -> list[float]:
    """The weights of a single process, up to rounding; all of them."""
    for one, other in zip(ours, alone, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=_FAR)
    return [value for one in ours for value in one.flatten().tolist()]
