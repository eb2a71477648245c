"""Numeric targets: a number or a count, several of its quantiles, and the values of forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Literal, final

import numpy as np
import polars as pl

from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Floats
from trainwright.data.base.messages import Wrong
from trainwright.data.base.parse_cells import LARGEST, to_numbers
from trainwright.data.columns.target import Target

QUANTILE = "quantile_"
"""Name prefix of the columns of predicted quantiles, before the quantile."""

Quantiles = tuple[float, ...]


class QuantileTarget(Target):
    """A number, of which models predict one value or several quantiles."""

    __slots__ = ()

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


def sorted_rows(scores: Floats, quantiles: Quantiles) -> Floats:
    """Quantiles [N, K] of each row ascending, one value [N, 1] unchanged: rearranged ones are not
    farther from the truth than crossing ones (Chernozhukov et al. 2010, Econometrica 78,
    proposition 4)."""
    return np.sort(scores, axis=1) if quantiles else scores


def median_of(scores: Floats, quantiles: Quantiles) -> Floats:
    """The value [N], or the median among quantiles [N, K]."""
    return scores[:, quantiles.index(0.5) if quantiles else 0]


def predicted_columns(scores: Floats, quantiles: Quantiles) -> list[pl.Series]:
    """`prediction`, the value or the median, and a column for each quantile."""
    each = (pl.Series(name, scores[:, at]) for at, name in enumerate(_names(quantiles)))
    return [pl.Series("prediction", median_of(scores, quantiles)), *each]


def stored_scores(frame: pl.DataFrame, quantiles: Quantiles) -> Floats:
    """Inverse of `predicted_columns`: [N, 1], or quantiles [N, K]."""
    names = _names(quantiles) or ["prediction"]
    return np.stack([frame[name].to_numpy() for name in names], axis=1)


def check_quantiles(quantiles: Quantiles) -> None:
    """Check quantiles that were read.

    Raises:
        ValueError: they do not ascend, or the median is not among them.
    """
    is_ascending = all(low < high for low, high in pairwise((0.0, *quantiles, 1.0)))
    if quantiles and not (is_ascending and 0.5 in quantiles):
        raise ValueError("target.json has quantiles that do not ascend around the median")


def _names(quantiles: Quantiles) -> list[str]:
    return [f"{QUANTILE}{one:g}" for one in quantiles]


@final
@dataclass(frozen=True, slots=True)
class Numbers(QuantileTarget):
    """A numeric target. `mean` and `deviation` (standard deviation) of the training rows are for
    models that learn the standardised value; `deviation` is never 0. With `counts`, it is a count,
    at least 0, and models learn the logarithm of its rate in units of the mean. `quantiles` are
    those that models predict, none for one number."""

    column: str
    mean: float
    deviation: float
    counts: bool = False
    quantiles: tuple[float, ...] = ()

    kind: ClassVar[str] = "numbers"
    task: ClassVar[Literal["regression"]] = "regression"

    @property
    def centre_and_spread(self) -> tuple[float, ...]:
        """`mean` and `deviation`; of counts 0 and the mean."""
        return (0.0, self.mean) if self.counts else (self.mean, self.deviation)

    @property
    def is_count(self) -> bool:
        """`counts`."""
        return self.counts

    def encode(self, series: pl.Series) -> Floats:
        """Values float64 [N], not standardised.

        Raises:
            DataMistake: a value is missing, infinite, beyond 32-bit floats or not a number; or it
                is below 0, of counts.
        """
        values = to_numbers(series).series.fill_null(np.nan).to_numpy()
        strange = Wrong()
        strange.add(series.filter(~(np.abs(values) <= LARGEST)))
        if strange.count:
            raise DataMistake(
                Problem(
                    f"{many(strange.count, 'row has', 'rows have')} no number as target",
                    path=self.column,
                    found=str(strange),
                    expected=f"a finite number up to {LARGEST:.3g} in every row",
                    fix="repair these rows, or use task: classification",
                )
            )
        if self.counts and len(values) and values.min() < 0:
            strange.add(series.filter(values < 0))
            raise DataMistake(
                Problem(
                    f"{many(strange.count, 'row has', 'rows have')} a count below 0",
                    path=self.column,
                    found=str(strange),
                    fix="repair these rows",
                )
            )
        return values

    def readable(self, cells: pl.Series) -> pl.Series:
        """Which of the cells are numbers, and counts not below 0."""
        numbers = to_numbers(cells).series
        fits = numbers.abs() <= LARGEST
        return fits & (numbers >= 0) if self.counts else fits

    def as_predicted(self, *, counts: bool, quantiles: tuple[float, ...] = ()) -> Target:
        """The same as a count, a number or its quantiles."""
        return replace(self, counts=counts, quantiles=quantiles)

    def check(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: they cannot be those of a target.
        """
        if self.counts and not self.mean > 0:
            raise ValueError("target.json has counts whose mean is not above 0")
        QuantileTarget.check(self)

    def describe(self, _shares: Mapping[str, float], /) -> str:
        """Mean and deviation."""
        also = ", counts" if self.counts else ""
        if self.quantiles:
            also = f", quantiles {', '.join(f'{one:g}' for one in self.quantiles)}"
        return f"{self.column} · mean {self.mean:,.5g}, deviation {self.deviation:,.5g}{also}"

    def to_json(self) -> Json:
        """What `target_from_json` reads."""
        # An earlier version, which would take rates for standardised numbers, knows no counts.
        kind = "counts" if self.counts else "quantiles" if self.quantiles else self.kind
        return {
            "kind": kind,
            "column": self.column,
            "mean": self.mean,
            "deviation": self.deviation,
            **({"quantiles": list(self.quantiles)} if self.quantiles else {}),
        }

    @classmethod
    def from_json(cls, json: Json) -> Numbers:
        """Inverse of `to_json`."""
        counts, quantiles = json["kind"] == "counts", tuple(json.get("quantiles", ()))
        return cls(json["column"], json["mean"], json["deviation"], counts, quantiles)


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
