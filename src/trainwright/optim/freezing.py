"""Freezing and staged unfreezing of modules."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Literal, final

from torch import nn

from trainwright.core.progress import Progress
from trainwright.optim.layerwise_lr import by_module
from trainwright.optim.swa import NORMS

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
    updated nor decayed. A frozen batch norm is in evaluation mode: it normalises by its running
    statistics and leaves them unchanged, so that what is frozen computes what it did before the
    training. `rows` are those of an epoch: the epoch of the next step follows from the rows that
    were consumed.
    """

    def __init__(self, model: nn.Module, modules: Mapping[str, Epochs], rows: int) -> None:
        self._rows = rows
        staged = by_module(model, modules, _PATH).items()
        self._until = [
            (p, math.inf if epochs == "always" else epochs)
            for p, epochs in staged
            if epochs == "always" or p.requires_grad
        ]
        self._norms = list(_frozen_norms(model, modules))
        self._set_for = -1

    def __call__(self, progress: Progress) -> None:
        """Freeze and unfreeze for the next step."""
        epoch = progress.samples // self._rows
        # At each step: a training begins by setting the mode of the whole model.
        for norm, until in self._norms:
            norm.training = epoch >= until
        if epoch == self._set_for:
            return
        self._set_for = epoch
        for parameter, until in self._until:
            parameter.requires_grad_(epoch >= until)


def _frozen_norms(
    model: nn.Module, modules: Mapping[str, Epochs]
) -> Iterator[tuple[nn.Module, float]]:
    """Norms with running statistics below one of the module paths, and the epoch from which on they
    are trained; the longest path counts."""
    for name, module in model.named_modules():
        above = [path for path in modules if f"{name}.".startswith(f"{path}.")]
        if above and isinstance(module, NORMS) and module.track_running_stats:
            epochs = modules[max(above, key=len)]
            yield module, math.inf if epochs == "always" else epochs
