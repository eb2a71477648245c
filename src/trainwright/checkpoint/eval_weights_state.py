"""The weights that are evaluated, saved beside those that are trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from trainwright.checkpoint.module_state import ModuleState
from trainwright.checkpoint.state import Snapshot, Stateful
from trainwright.optim.eval_weights import TrainedWeights, Weights

MODEL = "model"
"""The name of the part that holds the model."""

EVALUATED = "evaluated"
"""The name of the part that holds the evaluated weights."""


@final
class EvaluatedState:
    """What the model is with its evaluated weights: for whoever takes the model from a checkpoint.

    A run that goes on makes them again from the rest of its state, so nothing is restored.
    """

    def __init__(self, weights: Weights, model: ModuleState) -> None:
        self._weights = weights
        self._model = model

    def snapshot(self) -> Snapshot:
        """The whole model, with the evaluated weights."""
        ready = self._weights.ready()
        if ready != "computed":
            return self._model.snapshot_with(ready)
        with self._weights.evaluated():
            return self._model.snapshot_at_once()

    def restore(self, snapshot: Snapshot) -> None:
        """Nothing: they follow from the trained weights and the optimizer."""


def evaluated_state(weights: Weights, model: ModuleState) -> dict[str, Stateful]:
    """What a job's state holds for the evaluated weights: nothing if they are the trained ones."""
    return (
        {} if isinstance(weights, TrainedWeights) else {EVALUATED: EvaluatedState(weights, model)}
    )


def evaluated_part(parts: Mapping[str, Snapshot], model: str = MODEL) -> Snapshot:
    """The model to evaluate and keep, among the parts of a checkpoint; `model` is the name of the
    part that holds the trained one."""
    return parts[EVALUATED] if EVALUATED in parts else parts[model]
