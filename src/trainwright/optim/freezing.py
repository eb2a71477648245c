"""Freezing and staged unfreezing of modules."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, final

from torch import nn

from trainwright.core.progress import Progress
from trainwright.optim.layerwise_lr import by_module

Epochs = Literal["always"] | int
"""How long a module is frozen."""

_PATH = "training.freeze"


def freeze(model: nn.Module, modules: Mapping[str, Epochs]) -> None:
    """Freeze the modules that are never trained, before the optimizer is built: it must not contain
    them.

    Raises:
        ContractMistake: a module that the model does not have.
    """
    for parameter, epochs in by_module(model, modules, _PATH).items():
        if epochs == "always":
            parameter.requires_grad_(False)


@final
class Unfreezing:
    """Staged unfreezing (Howard and Ruder 2018, arXiv:1801.06146, section 3.2): frozen for the
    first epochs, trained from then on.

    The optimizer must contain the parameters from the start; one without a gradient is neither
    updated nor decayed. Norms of a frozen module still update their running statistics. `rows` are
    those of an epoch: the epoch of the next step follows from the rows that were consumed.
    """

    def __init__(self, model: nn.Module, modules: Mapping[str, Epochs], rows: int) -> None:
        self._rows = rows
        staged = by_module(model, modules, _PATH).items()
        self._until = [
            (p, math.inf if epochs == "always" else epochs)
            for p, epochs in staged
            if epochs == "always" or p.requires_grad
        ]
        self._set_for = -1

    def __call__(self, progress: Progress) -> None:
        """Freeze and unfreeze for the next step."""
        epoch = progress.samples // self._rows
        if epoch == self._set_for:
            return
        self._set_for = epoch
        for parameter, until in self._until:
            parameter.requires_grad_(epoch >= until)
