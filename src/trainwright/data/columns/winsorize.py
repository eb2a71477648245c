"""Winsorizing: numbers beyond the training range are clipped or set to missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import polars as pl

from trainwright.core.files import Json

_NO_END = "none"


@final
@dataclass(frozen=True, slots=True)
class Limit:
    """Limits of one numeric column and the treatment beyond them, applied to every encoded row, so
    that a model never sees values outside its training range. An infinite bound is absent; in JSON
    it is `none`."""

    column: str
    low: float
    high: float
    beyond: Literal["cap", "impute"]

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "column": self.column,
            "low": self.low if math.isfinite(self.low) else _NO_END,
            "high": self.high if math.isfinite(self.high) else _NO_END,
            "beyond": self.beyond,
        }

    @classmethod
    def from_json(cls, value: Json) -> Limit:
        """The limit that `to_json` wrote."""
        low = -math.inf if value["low"] == _NO_END else value["low"]
        high = math.inf if value["high"] == _NO_END else value["high"]
        return cls(value["column"], low, high, value["beyond"])

    def __str__(self) -> str:
        """The limited values: `above 9`, `below 0`, `outside 0 to 9`."""
        if math.isinf(self.low):
            return f"above {self.high:g}"
        return (
            f"below {self.low:g}"
            if math.isinf(self.high)
            else f"outside {self.low:g} to {self.high:g}"
        )


def limited(frame: pl.DataFrame, limits: Sequence[Limit]) -> pl.DataFrame:
    """Rows with every limit applied; a frame may lack columns."""
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
