"""The target of forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, final

import numpy as np
import polars as pl

from trainwright.core.files import Json
from trainwright.data.base.table import Floats
from trainwright.data.columns.quantile_columns import (
    check_quantiles,
    median_of,
    predicted_columns,
    sorted_rows,
    stored_scores,
)
from trainwright.data.columns.target_kind import Target

_OF_QUANTILES = "forecast_quantiles"
"""The kind in JSON of forecasts by quantiles, which an earlier version refuses."""


@final
@dataclass(frozen=True, slots=True)
class ForecastTarget(Target):
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

    @property
    def outputs(self) -> int:
        """Outputs of a model: the value."""
        return 1

    @property
    def score_columns(self) -> int:
        """The value, or its quantiles."""
        return max(1, len(self.quantiles))

    @property
    def network_outputs(self) -> int:
        """The same."""
        return self.score_columns

    def as_predicted(self, *, counts: bool, quantiles: tuple[float, ...] = ()) -> Target:
        """The same as a number or its quantiles; the rules refuse counts."""
        assert not counts, "a forecast is no count"
        return replace(self, quantiles=quantiles)

    def arrange(self, scores: Floats) -> Floats:
        """Quantiles of each row ascending."""
        return sorted_rows(scores, self.quantiles)

    def points(self, scores: Floats) -> Floats:
        """The value, or the median."""
        return median_of(scores, self.quantiles)

    def predictions(self, scores: Floats) -> list[pl.Series]:
        """The value; or the median, and a column for each quantile."""
        return predicted_columns(scores, self.quantiles)

    def stored(self, frame: pl.DataFrame) -> tuple[Floats, Floats]:
        """Values [N] and the predicted value [N, 1] or quantiles [N, K]."""
        return frame["target"].to_numpy(), stored_scores(frame, self.quantiles)

    def check(self) -> None:
        """Check the quantiles.

        Raises:
            ValueError: they do not ascend, or the median is not among them.
        """
        check_quantiles(self.quantiles)

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
