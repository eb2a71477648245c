"""Levels of rows: what the values of a row are measured against."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]


def _none() -> Values:
    return np.empty(0)


@final
@dataclass(frozen=True, slots=True)
class Levels:
    """A model of N rows learns (value - offset) / scale, with `offset` and `scale` [N]; both empty
    where values are learned as they are. `error_scale` [N] is the error that counts as 1 in the
    mean absolute scaled error, 0 where the series did not change; empty without series.
    `text_bytes` [N] are the bytes of the text of each segment's targets; empty without a text."""

    offset: Values = field(default_factory=_none)
    scale: Values = field(default_factory=_none)
    error_scale: Values = field(default_factory=_none)
    text_bytes: Values = field(default_factory=_none)

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
        return Levels(*(one[rows] if len(one) else one for one in each))

    def judged(self) -> dict[str, Values]:
        """Those that predictions are judged by, as columns."""
        each = {"error_scale": self.error_scale, "text_bytes": self.text_bytes}
        return {name: values for name, values in each.items() if len(values)}


NO_LEVELS = Levels()
