"""Reduce the learning rate on a plateau of the validation loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import final

from trainwright.core.files import Json


@final
class Plateau:
    """Reduces the rate by a factor once the validation loss has not improved for `patience`
    validations (as torch's ReduceLROnPlateau, with an absolute threshold and a patience of one
    less).

    Not a pure function of the step: `values` must be saved and restored.

    Args:
        before: factor without any reduction, for example that of a warmup.
        factor: rate after a reduction over that before it.
        patience: validations without improvement before a reduction.
        cooldown: validations after a reduction that are ignored.
        min_delta: smallest improvement that counts.
        floor: minimum factor.
    """

    def __init__(
        self,
        before: Callable[[int], float],
        *,
        factor: float,
        patience: int,
        cooldown: int = 0,
        min_delta: float = 0.0,
        floor: float = 0.0,
    ) -> None:
        self._before = before
        self._factor = factor
        self._patience = patience
        self._cooldown = cooldown
        self._min_delta = min_delta
        self._floor = floor
        self._best = math.inf
        self._without_gain = 0
        self._resting = 0
        self._falls = 0

    def __call__(self, step: int) -> float:
        """Factor for the step after `step` applied ones."""
        return max(self._floor, self._factor**self._falls) * self._before(step)

    def tell(self, loss: float) -> None:
        """Update with the loss of one validation. NaN is no improvement."""
        if loss < self._best - self._min_delta:
            self._best, self._without_gain = loss, 0
        else:
            self._without_gain += 1
        if self._resting:
            self._resting -= 1
            self._without_gain = 0
        if self._without_gain >= self._patience:
            self._falls += 1
            self._resting, self._without_gain = self._cooldown, 0

    @property
    def values(self) -> Json:
        """State changed by `tell`."""
        return {
            "best": self._best,
            "without_gain": self._without_gain,
            "resting": self._resting,
            "falls": self._falls,
        }

    @values.setter
    def values(self, values: Json) -> None:
        self._best = float(values["best"])
        self._without_gain = int(values["without_gain"])
        self._resting = int(values["resting"])
        self._falls = int(values["falls"])


@final
class Telling:
    """Validation whose loss updates a plateau schedule."""

    def __init__(self, validate: Callable[[], Mapping[str, float]], plateau: Plateau) -> None:
        self._validate = validate
        self._plateau = plateau

    def __call__(self) -> Mapping[str, float]:
        """Values of the validation."""
        values = self._validate()
        self._plateau.tell(values["val_loss"])
        return values
