"""What is not trained: never, or not yet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, final

from torch import nn

from trainwright.core.progress import Progress
from trainwright.optim.layerwise_lr import by_module

Epochs = Literal["always"] | int
"""How long a module is not trained."""

_PATH = "training.freeze"


def freeze(model: nn.Module, modules: Mapping[str, Epochs]) -> None:
    """Freeze what is never trained, before the optimizer is made: it must not hold it.

    Raises:
        ContractMistake: of a module that the model does not have.
    """
    for parameter, epochs in by_module(model, modules, _PATH).items():
        if epochs == "always":
            parameter.requires_grad_(False)


@final
class Unfreezing:
    """The knob of staged unfreezing (Howard and Ruder 2018, arXiv:1801.06146, section 3.2): frozen
    for the first epochs, trained from then on.

    The optimizer must hold the parameters from the start; one without a gradient is neither changed
    nor decayed. Norms of a frozen module still take their running statistics from the batches.
    """

    def __init__(self, model: nn.Module, modules: Mapping[str, Epochs]) -> None:
        staged = by_module(model, modules, _PATH).items()
        self._until = [
            (p, math.inf if epochs == "always" else epochs)
            for p, epochs in staged
            if epochs == "always" or p.requires_grad
        ]
        self._set_for = -1

    def __call__(self, progress: Progress) -> None:
        """Freeze and unfreeze for the step that comes."""
        if progress.epoch == self._set_for:
            return
        self._set_for = progress.epoch
        for parameter, until in self._until:
            parameter.requires_grad_(progress.epoch >= until)
