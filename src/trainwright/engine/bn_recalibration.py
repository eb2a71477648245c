"""Recompute BatchNorm statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import final

import torch
from torch import nn

from trainwright.checkpoint.states.random_state import RandomState
from trainwright.data.loading.batch import Batch
from trainwright.objective.losses import Objective
from trainwright.optim.swa import NORMS


@final
class BatchNormRecalibration:
    """Recomputes BatchNorm statistics for the current weights: forward passes over training rows,
    with the running mean and variance averaged over batches, as `torch.optim.swa_utils.update_bn`.
    Dropout and everything else are in evaluation mode. A norm whose weights are frozen keeps its
    statistics.

    Modes, random numbers and momenta are preserved. The result is bit-identical for the same
    weights and batches.

    Args:
        model: its BatchNorm statistics are replaced.
        objective: makes the forward pass of a batch.
        batches: yields the same batches at each call.
    """

    def __init__(
        self, model: nn.Module, objective: Objective, batches: Callable[[], Iterable[Batch]]
    ) -> None:
        self._model = model
        self._objective = objective
        self._batches = batches
        self._norms = [
            module
            for module in model.modules()
            if isinstance(module, NORMS) and module.track_running_stats
        ]

    def __call__(self) -> None:
        """Recompute the statistics."""
        norms = [one for one in self._norms if _is_trained(one)]
        if not norms:
            return
        modes = [(module, module.training) for module in self._model.modules()]
        momenta = [norm.momentum for norm in norms]
        numbers = RandomState().snapshot()
        self._model.eval()
        for norm in norms:
            norm.train()
            norm.reset_running_stats()
            norm.momentum = None  # torch: cumulative average
        try:
            with torch.no_grad():
                for batch in self._batches():
                    self._objective(self._model, batch)
        finally:
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = momentum
            for module, training in modes:
                module.training = training
            RandomState().restore(numbers)


def _is_trained(norm: nn.Module) -> bool:
    weights = list(norm.parameters())
    return not weights or any(one.requires_grad for one in weights)
