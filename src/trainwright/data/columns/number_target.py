"""A numeric target: a number or a count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, final

import numpy as np
import polars as pl

from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.cells.parse_cells import LARGEST, to_numbers
from trainwright.data.base.messages import Wrong
from trainwright.data.base.table import Floats
from trainwright.data.columns.quantile_columns import QuantileTarget
from trainwright.data.columns.target_kind import Target


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
                    expected="a number of at least 0 in every row",
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
