"""The target of forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, final

import numpy as np
import polars as pl

from trainwright.core.files import Json
from trainwright.data.base.table import Floats
from trainwright.data.columns.quantile_columns import QuantileTarget
from trainwright.data.columns.target_kind import Target

_OF_QUANTILES = "forecast_quantiles"
"""The kind in JSON of forecasts by quantiles, which an earlier version refuses."""


@final
@dataclass(frozen=True, slots=True)
class ForecastTarget(QuantileTarget):
    """Later values of series. `mean` and `deviation` are those of the training rows as they are
    learned, against the levels of their rows; `deviation` is never 0. `quantiles` are those that
    models predict, none for one number."""

    column: str
    mean: float
    deviation: float
    quantiles: tuple[float, ...] = ()

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

    def as_predicted(self, *, counts: bool, quantiles: tuple[float, ...] = ()) -> Target:
        """The same as a number or its quantiles; the rules refuse counts."""
        assert not counts, "a forecast is no count"
        return replace(self, quantiles=quantiles)

    def encode(self, series: pl.Series) -> Floats:
        """Values float64 [N], not standardised; all are numbers."""
        return series.cast(pl.Float64).fill_null(np.nan).to_numpy()

    def describe(self, _shares: Mapping[str, float], /) -> str:
        """Its name, and the quantiles."""
        also = f", quantiles {', '.join(f'{one:g}' for one in self.quantiles)}"
        return f"{self.column} · forecast{also if self.quantiles else ''}"

    def to_json(self) -> Json:
        """What `target_from_json` reads."""
        fields = {"column": self.column, "mean": self.mean, "deviation": self.deviation}
        if not self.quantiles:
            return {"kind": self.kind, **fields}
        return {"kind": _OF_QUANTILES, **fields, "quantiles": list(self.quantiles)}

    @classmethod
    def from_json(cls, json: Json) -> ForecastTarget:
        """Inverse of `to_json`."""
        quantiles = tuple(json.get("quantiles", ()))
        return cls(json["column"], json["mean"], json["deviation"], quantiles)
