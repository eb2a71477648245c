"""The one schedule that depends on what a run has reached."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import final

from trainwright.core.files import Json


@final
class Plateau:
    """The rate falls by a factor once the validation loss has not fallen for `patience` validations
    (as torch's ReduceLROnPlateau, with an absolute threshold and a patience of one less).

    Not a pure function of the step: `values` must be saved and given back.

    Args:
        before: the factor without any fall, for example of a warmup.
        factor: the rate after a fall over that before it.
        patience: validations without gain before a fall.
        cooldown: validations after a fall that are not counted.
        min_delta: gain that counts as one.
        floor: the least factor.
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
        """The factor for the step after `step` applied ones."""
        return max(self._floor, self._factor**self._falls) * self._before(step)

    def tell(self, loss: float) -> None:
        """Take in the loss of one validation. NaN is no gain."""
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
        """Everything that `tell` has changed."""
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
    """A validation whose loss is told to a plateau."""

    def __init__(self, validate: Callable[[], Mapping[str, float]], plateau: Plateau) -> None:
        self._validate = validate
        self._plateau = plateau

    def __call__(self) -> Mapping[str, float]:
        """The values of the validation."""
        values = self._validate()
        self._plateau.tell(values["val_loss"])
        return values
