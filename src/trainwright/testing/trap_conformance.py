"""Conformance checks of distribution strategies: traps in which ranks part without an error."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from trainwright.core.errors import Mistake
from trainwright.data.loading.batch import Batch
from trainwright.data.loading.feed import StepBatches
from trainwright.distributed.strategy import SingleProcess, Strategy
from trainwright.engine.update.step import OptimizerStep
from trainwright.objective.losses import LossSum
from trainwright.testing.fake_strategy import assert_same_outcome, assert_same_weights, own_batches
from trainwright.testing.trained_network import TrainedNetwork, masked_steps


def check_gradient_layout(strategy: Strategy) -> Sequence[float]:
    """Gradients have the strides of their parameters: torch's fused AdamW on a CPU pairs their
    memory, not their indices."""
    draw = torch.Generator().manual_seed(5)
    images = torch.randn(4, 3, 5, 5, generator=draw, dtype=torch.float64)
    updated: list[list[Tensor]] = []
    for of_ranks in (strategy, SingleProcess()):
        network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(36, 2)).double()
        weights = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for parameter in network.parameters():
                values = torch.randn(parameter.shape, generator=weights, dtype=torch.float64)
                parameter.copy_(values / 3)
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        model = of_ranks.wrap(network)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, eps=1e-3, fused=True)
        step = OptimizerStep(model, _squares, optimizer, strategy=of_ranks)
        batches = [
            Batch({"input": part, "target": part[:, 0, 0, :2]}) for part in torch.split(images, 1)
        ]
        step(own_batches(StepBatches(batches, 4, 4, 4, 0, 0.0), of_ranks))
        for parameter in model.parameters():
            assert parameter.grad is not None
            assert parameter.grad.stride() == parameter.stride()
        updated.append([one.detach().clone() for one in model.parameters()])
    ours, alone = updated
    return assert_same_weights(ours, alone)


def check_thawed_layers(strategy: Strategy) -> Sequence[float]:
    """Layers that were frozen when the model was wrapped, and are thawed later, are trained as by
    one process."""
    ours, alone = (
        TrainedNetwork(strategy, frozen=True),
        TrainedNetwork(SingleProcess(), frozen=True),
    )
    for number, work in enumerate(masked_steps(strategy.world_size)):
        if number == 1:
            for trained in (ours, alone):
                trained.model.requires_grad_(True)
        assert_same_outcome(ours.make(work), alone.make(work))
    return assert_same_weights(ours.weights(), alone.weights())


def check_order_of_sums(strategy: Strategy) -> Sequence[float]:
    """As many micro-batches as ranks: the weights of a single process to the last bit, although an
    all-reduce may add in another order at each position."""
    ours, alone = TrainedNetwork(strategy), TrainedNetwork(SingleProcess())
    for work in masked_steps(strategy.world_size):
        ours.make(work)
        alone.make(work)
    assert all(map(torch.equal, ours.weights(), alone.weights()))
    return assert_same_weights(ours.weights(), alone.weights())


def check_batch_norm(strategy: Strategy) -> Sequence[float]:
    """Ranks would each keep statistics of their own rows, and score the same rows differently: such
    a model is refused on several ranks of a CPU."""
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 2)).double()
    refusal = ""
    try:
        strategy.wrap(model)
    except Mistake as error:
        refusal = str(error)
    assert ("batch norm" in refusal) == (strategy.world_size > 1)
    return []


def check_dropout(strategy: Strategy) -> Sequence[float]:
    """Each micro-batch has a mask of its own, the one that a single process draws for it. Not for
    ranks that are threads, which share the generator."""
    updated = []
    for of_ranks in (strategy, SingleProcess()):
        trained = TrainedNetwork(of_ranks, objective=_drop_inputs)
        trained.step.drawing_by(7)
        for work in masked_steps(2 * strategy.world_size):
            trained.make(work)
        updated.append(trained.weights())
    ours, alone = updated
    return assert_same_weights(ours, alone)


def _squares(model: nn.Module, batch: Batch) -> LossSum:
    """Squared errors, a target a row."""
    x, y = batch
    return LossSum((model(x) - y).square().sum(), len(y))


def _drop_inputs(model: nn.Module, batch: Batch) -> LossSum:
    """Squared errors of rows with dropout."""
    x, y, mask = batch
    errors = (model(nn.functional.dropout(x, 0.5)) - y).square() * mask
    return LossSum(errors.sum(), int(mask.sum()))
