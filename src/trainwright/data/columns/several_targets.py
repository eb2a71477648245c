"""Several targets of a row: their columns and names, and several numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json
from trainwright.data.base.categories import safe_quantiles
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.columns.number_target import Numbers
from trainwright.data.columns.target import Target

PREDICTION, TRUTH, SCORE = "prediction_", "target_", "probability_"
"""Name prefixes of the columns of predictions, before the name of a target."""

MOST_SHOWN = 4
"""Targets that a line of text names."""


def named_columns(prefix: str, names: Sequence[str], values: npt.NDArray[Any]) -> list[pl.Series]:
    """A column for each name of values [N, T]."""
    return [pl.Series(f"{prefix}{name}", values[:, at]) for at, name in enumerate(names)]


def read_named(frame: pl.DataFrame, prefix: str, names: Sequence[str]) -> Floats:
    """Inverse of `named_columns`, float64 [N, T]."""
    columns = [frame[f"{prefix}{name}"].cast(pl.Float64).to_numpy() for name in names]
    return np.stack(columns, axis=1)


def check_names(names: Sequence[str]) -> None:
    """Check the names of several targets.

    Raises:
        ValueError: fewer than two, or one stands twice.
    """
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError("target.json names a target twice, or fewer than two")


def and_more(count: int) -> str:
    """The end of a line that shows the first of so many."""
    return f" and {count - MOST_SHOWN} more" if count > MOST_SHOWN else ""


@final
@dataclass(frozen=True, slots=True)
class SeveralNumbers(Target):
    """T numeric targets, each a column of its own. `means` and `deviations` of the training rows
    are for models that learn standardised values; no deviation is 0."""

    column: str
    columns: tuple[str, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]

    kind: ClassVar[str] = "several_numbers"
    task: ClassVar[Literal["regression"]] = "regression"

    @property
    def outputs(self) -> int:
        """Outputs of a model: one for each target."""
        return len(self.columns)

    @property
    def target_names(self) -> tuple[str, ...]:
        """`columns`."""
        return self.columns

    @property
    def singles(self) -> tuple[Target, ...]:
        """Each as a target of its own."""
        each = zip(self.columns, self.means, self.deviations, strict=True)
        return tuple(Numbers(*one) for one in each)

    @property
    def centre_and_spread(self) -> tuple[float, ...]:
        """`means`, then `deviations`."""
        return (*self.means, *self.deviations)

    def cells(self, frame: pl.DataFrame) -> pl.Series:
        """The columns, as one of structs."""
        return frame.select(pl.struct(self.columns).alias(self.column)).to_series()

    def encode(self, series: pl.Series) -> Floats:
        """Values float64 [N, T], not standardised.

        Raises:
            DataMistake: as `Numbers.encode`, of every column.
        """
        return encode_each(self.singles, series)

    def readable(self, cells: pl.Series) -> pl.Series:
        """Which of the cells are numbers in every column."""
        fits = pl.repeat(value=True, n=len(cells), eager=True)
        for one in self.singles:
            fits = fits & one.readable(cells.struct.field(one.column))
        return fits

    def truths(self, values: npt.NDArray[Any]) -> list[pl.Series]:
        """A column for each target."""
        return named_columns(TRUTH, self.columns, values)

    def predictions(self, scores: Floats) -> list[pl.Series]:
        """A column for each target."""
        return named_columns(PREDICTION, self.columns, scores)

    def profile(
        self,
        scores: Floats,
        encoded: Integers | Floats,  # noqa: ARG002
        decided: Integers | None = None,  # noqa: ARG002
    ) -> dict[str, Json]:
        """Quantiles of the predictions of each target."""
        each = zip(self.columns, scores.T, strict=True)
        return {"quantiles": {name: safe_quantiles(values) for name, values in each}}

    def stored(self, frame: pl.DataFrame) -> tuple[Floats, Floats]:
        """Values [N, T] and predictions [N, T]."""
        return read_named(frame, TRUTH, self.columns), read_named(frame, PREDICTION, self.columns)

    def category_values(self, encoded: Integers | Floats) -> tuple[Floats, tuple[str, ...]]:
        """The value of each target."""
        return np.asarray(encoded, np.float64), self.columns

    def is_same(self, other: Target) -> bool:
        """Have both the same columns in the same order?"""
        return type(self) is type(other) and self.columns == other.target_names

    def describe(self, _shares: Mapping[str, float], /) -> str:
        """Mean and deviation of the first ones."""
        each = list(zip(self.columns, self.means, self.deviations, strict=True))
        shown = [
            f"{name} mean {mean:,.5g}, deviation {spread:,.5g}"
            for name, mean, spread in each[:MOST_SHOWN]
        ]
        return f"{len(each)} targets · " + " · ".join(shown) + and_more(len(each))

    def check(self) -> None:
        """Check names and numbers.

        Raises:
            ValueError: they cannot be those of several targets.
        """
        check_names(self.columns)
        numbers = (*self.means, *self.deviations)
        if {len(self.means), len(self.deviations)} != {len(self.columns)}:
            raise ValueError("target.json has other numbers of means than of targets")
        if not all(map(math.isfinite, numbers)) or min(self.deviations) <= 0:
            raise ValueError("target.json has means or deviations that are impossible")

    def to_json(self) -> Json:
        """What `target_from_json` reads."""
        return {
            "kind": self.kind,
            "columns": list(self.columns),
            "means": list(self.means),
            "deviations": list(self.deviations),
        }

    @classmethod
    def from_json(cls, json: Json) -> SeveralNumbers:
        """Inverse of `to_json`."""
        columns = tuple(json["columns"])
        means, deviations = tuple(map(float, json["means"])), tuple(map(float, json["deviations"]))
        return cls(", ".join(columns), columns, means, deviations)


def encode_each(singles: Sequence[Target], series: pl.Series) -> Floats:
    """Columns of structs encoded one by one, float64 [N, T].

    Raises:
        DataMistake: with the problems of every column.
    """
    problems: list[Problem] = []
    found = np.empty((len(series), len(singles)))
    for at, one in enumerate(singles):
        try:
            found[:, at] = one.encode(series.struct.field(one.column))
        except DataMistake as mistake:
            problems += mistake.problems
    if problems:
        raise DataMistake(problems)
    return found


def fit_several_numbers(train: pl.DataFrame, columns: Sequence[str]) -> SeveralNumbers:
    """Means and standard deviations of the training rows, numbers already."""
    values = train.select(columns).to_numpy().astype(np.float64)
    means, deviations = values.mean(axis=0), values.std(axis=0)
    spreads = tuple(float(one) or 1.0 for one in deviations)
    return SeveralNumbers(", ".join(columns), tuple(columns), tuple(map(float, means)), spreads)
