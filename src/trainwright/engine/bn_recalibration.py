"""The running statistics of norms, computed anew for the weights that a model has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import final

import torch
from torch import nn

from trainwright.checkpoint.random_state import RandomState
from trainwright.data.loading.dataset import Batch
from trainwright.objective.losses import Objective
from trainwright.optim.swa import NORMS


@final
class BatchNormRecalibration:
    """Forward passes over training rows, of which norms take the equal mean over batches of their
    mean and variance, as `torch.optim.swa_utils.update_bn`; but dropout and all else is as in a
    validation.

    Modes, random numbers and momenta are left as found. Gives the same bits each time for the same
    weights and batches.

    Args:
        model: whose norms are set.
        objective: makes the forward pass of a batch.
        batches: gives the same batches at each call.
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
        """Compute them."""
        if not self._norms:
            return
        modes = [(module, module.training) for module in self._model.modules()]
        momenta = [norm.momentum for norm in self._norms]
        numbers = RandomState().snapshot()
        self._model.eval()
        for norm in self._norms:
            norm.train()
            norm.reset_running_stats()
            norm.momentum = None  # torch's word for an equal mean
        try:
            with torch.no_grad():
                for batch in self._batches():
                    self._objective(self._model, batch)
        finally:
            for norm, momentum in zip(self._norms, momenta, strict=True):
                norm.momentum = momentum
            for module, training in modes:
                module.training = training
            RandomState().restore(numbers)
