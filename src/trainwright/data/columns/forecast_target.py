"""The target of forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np
import polars as pl

from trainwright.core.files import Json
from trainwright.data.base.table import Floats
from trainwright.data.columns.target_kind import Target


@final
@dataclass(frozen=True, slots=True)
class ForecastTarget(Target):
    """Later values of series. `mean` and `deviation` are those of the training rows as they are
    learned, against the levels of their rows; `deviation` is never 0."""

    column: str
    mean: float
    deviation: float

    kind: ClassVar[str] = "forecasts"
    task: ClassVar[Literal["forecasting"]] = "forecasting"

    @classmethod
    def of(cls, column: str, learned: Floats) -> ForecastTarget:
        """The target of training rows with these learned values."""
        return cls(column, float(learned.mean()), float(learned.std()) or 1.0)

    @property
    def centre_and_spread(self) -> tuple[float, ...]:
        """`mean` and `deviation`."""
        return self.mean, self.deviation

    @property
    def outputs(self) -> int:
        """Outputs of a model: the value."""
        return 1

    def encode(self, series: pl.Series) -> Floats:
        """Values float64 [N], not standardised; all are numbers."""
        return series.cast(pl.Float64).fill_null(np.nan).to_numpy()

    def describe(self, _shares: Mapping[str, float], /) -> str:
        """Its name."""
        return f"{self.column} · forecast"

    def to_json(self) -> Json:
        """What `target_from_json` reads."""
        fields = {"column": self.column, "mean": self.mean, "deviation": self.deviation}
        return {"kind": self.kind, **fields}

    @classmethod
    def from_json(cls, json: Json) -> ForecastTarget:
        """Inverse of `to_json`."""
        return cls(json["column"], json["mean"], json["deviation"])
