"""Numbers beyond the ends that training rows have: put at the ends, or taken for missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import polars as pl

from trainwright.core.files import Json


@final
@dataclass(frozen=True, slots=True)
class Limit:
    """The ends of one numeric column, and what happens beyond them, in every row that is encoded:
    what a model never saw in training, it does not meet later."""

    column: str
    low: float
    high: float
    beyond: Literal["cap", "impute"]

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "column": self.column,
            "low": self.low,
            "high": self.high,
            "beyond": self.beyond,
        }

    @classmethod
    def from_json(cls, value: Json) -> Limit:
        """The limit that `to_json` wrote."""
        return cls(**value)


def limited(frame: pl.DataFrame, limits: Sequence[Limit]) -> pl.DataFrame:
    """The rows with every limit applied; a frame may lack columns."""
    for limit in limits:
        if limit.column not in frame.columns:
            continue
        values = pl.col(limit.column)
        if limit.beyond == "cap":
            changed = values.clip(limit.low, limit.high)
        else:
            changed = pl.when(values.is_between(limit.low, limit.high)).then(values)
        frame = frame.with_columns(changed.alias(limit.column))
    return frame
