"""Conformance checks of distribution strategies: how a run trains, and how it goes on."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainwright.checkpoint.states.module_state import ModuleState
from trainwright.checkpoint.states.optimizer_state import OptimizerState
from trainwright.distributed.strategy import SingleProcess, Strategy
from trainwright.engine.execution.precision import Autocast
from trainwright.engine.job import Every, Job
from trainwright.engine.loop import fit
from trainwright.engine.stopping.stop_rules import StepLimit
from trainwright.engine.update.gradient_clipping import ValueLimit
from trainwright.testing.fake_strategy import (
    assert_same_outcome,
    assert_same_weights,
    network_of_rank,
)
from trainwright.testing.fakes import MemoryCheckpoints
from trainwright.testing.trained_network import (
    RankRows,
    TrainedNetwork,
    masked_errors,
    masked_steps,
    tied_network,
)

_CUT, _WHOLE = 2, 5
"""Steps after which a run is stopped, and those of a whole run."""


def check_clipping_by_value(strategy: Strategy) -> Sequence[float]:
    """The elements of the summed gradient are clipped, not those of a rank."""
    told: list[float] = []
    for accumulate in (1, 2 * strategy.world_size):
        ours, alone = (
            TrainedNetwork(of_ranks, clipping=ValueLimit(0.02))
            for of_ranks in (strategy, SingleProcess())
        )
        for work in masked_steps(accumulate):
            assert_same_outcome(ours.make(work), alone.make(work))
        told += assert_same_weights(ours.weights(), alone.weights())
    return told


def check_tied_weights(strategy: Strategy) -> Sequence[float]:
    """A weight of two layers is one weight, whose gradient is that of both."""
    ours, alone = (
        TrainedNetwork(of_ranks, network=tied_network) for of_ranks in (strategy, SingleProcess())
    )
    for work in masked_steps(strategy.world_size):
        assert_same_outcome(ours.make(work), alone.make(work))
    first, _, second, *_ = ours.model.children()
    assert first.weight is second.weight
    return assert_same_weights(ours.weights(), alone.weights())


def check_precision(strategy: Strategy) -> Sequence[float]:
    """Products in bf16: as a single process with as many micro-batches as ranks, whose products
    are the same."""
    ours, alone = (
        TrainedNetwork(
            of_ranks,
            objective=lambda model, batch: masked_errors(model, batch.apply(Tensor.float)),
            precision=Autocast(strategy.device),
            network=lambda rank: network_of_rank(rank).float(),
        )
        for of_ranks in (strategy, SingleProcess())
    )
    for work in masked_steps(strategy.world_size):
        ours.make(work)
        alone.make(work)
    assert {one.dtype for one in ours.weights()} == {torch.float32}
    return assert_same_weights(ours.weights(), alone.weights(), atol=1e-6)


def check_cut_run(strategy: Strategy) -> Sequence[float]:
    """A run that was cut goes on with the same bits."""
    kept = MemoryCheckpoints()
    whole = _train(strategy, MemoryCheckpoints(), _WHOLE)
    _train(strategy, kept, _CUT)
    resumed = _train(strategy, kept, _WHOLE)
    assert all(map(torch.equal, resumed, whole))
    return assert_same_weights(resumed, whole)


def check_other_ranks(strategy: Strategy) -> Sequence[float]:
    """A run that one process began goes on with several, and the other way round."""
    of_one, of_ranks = MemoryCheckpoints(), MemoryCheckpoints()
    alone = _train(SingleProcess(), MemoryCheckpoints(), _WHOLE)
    _train(SingleProcess(), of_one, _CUT)
    _train(strategy, of_ranks, _CUT)
    told = assert_same_weights(_train(strategy, of_one, _WHOLE), alone)
    return told + assert_same_weights(_train(SingleProcess(), of_ranks, _WHOLE), alone)


def _train(strategy: Strategy, checkpoints: MemoryCheckpoints, steps: int) -> list[Tensor]:
    """The weights after so many steps, from the newest checkpoint on."""
    trained, accumulate = TrainedNetwork(strategy), 4
    job = Job(
        model=trained.model,
        feed=RankRows(strategy, accumulate),
        step=trained.step,
        stop_rules=(StepLimit(steps),),
        state={
            "model": ModuleState(trained.model),
            "optimizer": OptimizerState(trained.optimizer, trained.model.named_parameters()),
        },
        checkpoints=checkpoints,
        checkpoint_every=Every(steps),
    )
    fit(job)
    return trained.weights()
