"""Evaluation weights, saved next to the trained ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from torch import nn

from trainwright.checkpoint.state import Snapshot, Stateful
from trainwright.checkpoint.states.module_state import ModuleState
from trainwright.optim.eval_weights import TrainedWeights, Weights

MODEL = "model"
"""Name of the part that contains the model."""

EVALUATED = "evaluated"
"""Name of the part that contains the evaluation weights."""

WEIGHTS = "weights"
"""Key of the inventory that names the part to export, in checkpoints of a script."""


@final
class EvaluatedState:
    """The model with its evaluation weights, for consumers that take the model from a checkpoint.

    A resumed run derives them from the rest of its state, so nothing is restored.
    """

    def __init__(self, weights: Weights, model: ModuleState) -> None:
        self._weights = weights
        self._model = model

    @property
    def module(self) -> nn.Module:
        """The model."""
        return self._model.module

    def snapshot(self) -> Snapshot:
        """The whole model, with the evaluation weights."""
        ready = self._weights.ready()
        if ready != "computed":
            return self._model.snapshot_with(ready)
        with self._weights.evaluated():
            return self._model.snapshot_at_once()

    def restore(self, snapshot: Snapshot) -> None:
        """No effect: they follow from the trained weights and the optimizer."""


def evaluated_state(weights: Weights, model: ModuleState) -> dict[str, Stateful]:
    """Part of a job's state for the evaluation weights: empty if they are the trained ones."""
    return (
        {} if isinstance(weights, TrainedWeights) else {EVALUATED: EvaluatedState(weights, model)}
    )


def evaluated_part(parts: Mapping[str, Snapshot]) -> Snapshot:
    """Model to evaluate and export, among the parts of a checkpoint."""
    return parts[EVALUATED] if EVALUATED in parts else parts[MODEL]
