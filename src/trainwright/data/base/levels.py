"""Levels of rows: what the values of a row are measured against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
_FEWEST_OF_STEP = 20


def _none() -> Values:
    return np.empty(0)


def _no_steps() -> npt.NDArray[np.int64]:
    return np.empty(0, np.int64)


@final
@dataclass(frozen=True, slots=True)
class Levels:
    """A model of N rows learns (value - offset) / scale, with `offset` and `scale` [N]; both empty
    where values are learned without levels. `error_scale` [N] is the error that counts as 1 in the
    mean absolute scaled error, 0 where the series did not change; `steps` int64 [N] is how far
    ahead each row is forecast, from 1 on. Both are empty without series. `text_bytes` [N] are the
    bytes of the text of each segment's targets; empty without a text."""

    offset: Values = field(default_factory=_none)
    scale: Values = field(default_factory=_none)
    error_scale: Values = field(default_factory=_none)
    text_bytes: Values = field(default_factory=_none)
    steps: npt.NDArray[np.int64] = field(default_factory=_no_steps)

    def learned(self, values: Values) -> Values:
        """Values [N] as a model learns them."""
        return (values - self.offset) / self.scale if len(self.scale) else values

    def restored(self, scores: Values) -> Values:
        """Inverse of `learned`, for scores [N, K]."""
        if not len(self.scale):
            return scores
        return np.asarray(scores * self.scale[:, None] + self.offset[:, None])

    def take(self, rows: npt.NDArray[np.int64] | slice) -> Levels:
        """Those of the given rows."""
        each = (self.offset, self.scale, self.error_scale, self.text_bytes)
        offset, scale, error_scale, text_bytes = (one[rows] if len(one) else one for one in each)
        steps = self.steps[rows] if len(self.steps) else self.steps
        return Levels(offset, scale, error_scale, text_bytes, steps)

    def judged(self) -> dict[str, Values]:
        """Those that predictions are judged by, as columns."""
        each = {"error_scale": self.error_scale, "text_bytes": self.text_bytes}
        return {name: values for name, values in each.items() if len(values)}


NO_LEVELS = Levels()


def quantiles_by_step(
    residuals: Values, steps: npt.NDArray[np.int64], quantiles: Sequence[float], horizon: int
) -> Values:
    """Quantiles [H, K] of the residuals [N] of each step [N], from 1 to the horizon; of fewer than
    20, those of all steps."""
    of_all = np.quantile(residuals, quantiles)
    found = np.tile(of_all, (horizon, 1))
    for step in range(1, len(found) + 1):
        own = residuals[steps == step]
        if len(own) >= _FEWEST_OF_STEP:
            found[step - 1] = np.quantile(own, quantiles)
    return found
