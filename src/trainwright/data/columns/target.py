"""What is predicted: the interface of every kind of target, their table, and costs of errors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.core.errors import DataMistake
from trainwright.core.files import Json
from trainwright.core.lazy_imports import LazyTable
from trainwright.data.base.categories import rounded, safe_quantiles
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.messages import quoted, some
from trainwright.data.base.parse_cells import LARGEST, to_numbers
from trainwright.data.base.row_storage import RowStorage, bounds, slices_of

NO_POSITIVE = -1

Costs = tuple[tuple[float, ...], ...]
"""What it costs to take a row of a class (the row) for a class (the column), by codes; empty where
errors have no costs."""

LIKELY = 0.5
"""The probability from which on a row is given a label."""


class Target(ABC):
    """What is predicted, and its numbers. What others must know of a kind of target stands here,
    with the answers of one number a row."""

    __slots__ = ()

    kind: ClassVar[str]
    """Its name in JSON."""

    task: ClassVar[
        Literal[
            "classification",
            "regression",
            "multilabel",
            "generation",
            "ranking",
            "forecasting",
            "retrieval",
        ]
    ]
    """What its metrics and curves are those of."""

    unit: ClassVar[str] = "rows"
    """What the targets of a step are counted in."""

    profiled_rows: ClassVar[int] = 2000
    """The most rows that `profile` is given."""

    dtype: ClassVar[type[np.int64 | np.float64]] = np.float64
    """Of encoded values."""

    is_one_way: ClassVar[bool] = False
    """Of a retrieval: is only one side asked for, and the other one found?"""

    column: str

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Outputs of a model."""

    @property
    def score_columns(self) -> int:
        """Numbers that a predictor scores each row with."""
        return self.outputs

    @property
    def tokens(self) -> int:
        """Different tokens of a text, if one of them is predicted; else 0."""
        return 0

    def check(self) -> None:
        """Check values that were read.

        Raises:
            ValueError: they cannot be those of a target.
        """
        if self.outputs < 1:
            raise ValueError("target.json has nothing to predict")

    @property
    def target_names(self) -> tuple[str, ...]:
        """The name of each of several targets or labels, whose encoded values are [N, T]; empty for
        one."""
        return ()

    @property
    def singles(self) -> tuple[Target, ...]:
        """Each of several as a target of its own; itself if it is one."""
        return (self,)

    @property
    def target_columns(self) -> tuple[str, ...]:
        """The columns that hold it."""
        return self.target_names or (self.column,)

    def cells(self, frame: pl.DataFrame) -> pl.Series:
        """What `encode` takes, of rows with its columns."""
        return frame[self.column]

    @property
    def classes(self) -> tuple[str, ...]:
        """The class of each output; empty without classes."""
        return ()

    @property
    def positive_code(self) -> int:
        """The code of the positive class of two; -1 without one."""
        return NO_POSITIVE

    @property
    def is_count(self) -> bool:
        """Is it a count, of which models predict the rate, above 0?"""
        return False

    @property
    def is_ordered(self) -> bool:
        """Do the classes ascend from the lowest to the highest?"""
        return False

    @property
    def costs(self) -> Costs:
        """What errors cost."""
        return ()

    @property
    def is_paired(self) -> bool:
        """Is it which of two answers is preferred?"""
        return False

    @property
    def quantiles(self) -> tuple[float, ...]:
        """Quantiles that models predict, ascending, with 0.5 among them; empty for one number."""
        return ()

    @property
    def network_outputs(self) -> int:
        """Outputs of a network: one for each quantile."""
        return self.outputs

    def as_predicted(self, *, counts: bool, quantiles: tuple[float, ...] = ()) -> Target:  # noqa: ARG002
        """What a contract predicts of it: of a number, with `counts` its rate, or its quantiles."""
        return self

    def with_costs(self, costs: Mapping[str, Mapping[str, float]]) -> Target:  # noqa: ARG002
        """The same with what errors cost: {true: {predicted: cost}}, by the names of classes."""
        return self

    def with_width(self, width: int) -> Target:  # noqa: ARG002
        """The same for a model whose embeddings have a width, 0 for one without."""
        return self

    def arrange(self, scores: Floats) -> Floats:
        """Scores of a model in order: quantiles of a row ascend, so that none crosses another."""
        return scores

    def points(self, scores: Floats) -> Floats:
        """The predicted number [N] among scores [N, K]."""
        return scores[:, 0]

    @property
    def centre_and_spread(self) -> tuple[float, ...]:
        """Mean and standard deviation, where models learn the standardised value; empty where they
        learn classes."""
        return ()

    @abstractmethod
    def encode(self, series: pl.Series) -> Integers | Floats:
        """Values [N] of cleaned cells, of several targets [N, T].

        Raises:
            DataMistake: a value is missing or impossible.
        """

    def readable(self, cells: pl.Series) -> pl.Series:
        """Which of the cleaned cells `encode` takes; missing where they are."""
        return to_numbers(cells).series.abs() <= LARGEST

    def decode(self, values: npt.NDArray[Any]) -> pl.Series:
        """Displayed values [N] of encoded ones."""
        return pl.Series(values)

    def truths(self, values: npt.NDArray[Any]) -> list[pl.Series]:
        """Columns of encoded values, each called `target`, or that and the name of a target."""
        return [self.decode(values).alias("target")]

    def predictions(self, scores: Floats) -> list[pl.Series]:
        """Columns of predictions for scores [N, outputs]; the first is called `prediction`, of
        several targets `prediction_` and the name of the first."""
        return [pl.Series("prediction", scores[:, 0])]

    def decisions(self, decided: Integers) -> list[pl.Series]:
        """The first columns of `predictions` for what was decided: codes [N], or of labels [N, L]
        whether a row is given each."""
        return [self.decode(decided).alias("prediction")]

    @property
    def query(self) -> str:
        """The column within whose values rows are ranked; empty where they are not."""
        return ""

    def queries(self, frame: pl.DataFrame) -> Integers | None:  # noqa: ARG002
        """Code of the query of each row [N], where rows are ranked within queries."""
        return None

    def query_columns(self, frame: pl.DataFrame, scores: Floats) -> list[pl.Series]:  # noqa: ARG002
        """Columns of predictions that depend on the other rows of a query."""
        return []

    def profile(
        self, scores: Floats, encoded: Integers | Floats, decided: Integers | None = None
    ) -> dict[str, Json]:
        """How the predictions for rows with these encoded values are distributed: shares and mean
        probabilities of classes, else quantiles, of texts per token. `decided` are classes [N]
        that a threshold has chosen. Nothing in it identifies a row."""
        if self.classes:
            codes = scores.argmax(axis=1) if decided is None else decided
            chosen = np.bincount(codes, minlength=len(self.classes)) / len(scores)
            both = {"shares": chosen, "mean_probabilities": scores.mean(axis=0)}
            return {
                key: dict(zip(self.classes, map(rounded, values.tolist()), strict=True))
                for key, values in both.items()
            }
        of_each = np.maximum(1, encoded) if self.unit == "tokens" else 1
        return {"quantiles": safe_quantiles(self.points(scores) / of_each)}

    def stored(self, frame: pl.DataFrame) -> tuple[Integers | Floats, Floats]:
        """Encoded values [N] and scores [N, K] of a frame with the columns `target` and those of
        `predictions`."""
        return frame["target"].to_numpy(), np.stack([frame["prediction"].to_numpy()], axis=1)

    def stored_decisions(self, frame: pl.DataFrame) -> Integers | None:
        """Inverse of `decisions`; None where nothing is decided."""
        if not self.classes:
            return None
        return np.asarray(self.encode(frame["prediction"].cast(pl.String)), np.int64)

    def category_values(self, encoded: Integers | Floats) -> tuple[Floats, tuple[str, ...]]:
        """What is averaged over the rows of a category [N, K], and what each column is called."""
        return encoded[:, None].astype(np.float64), ("",)

    def is_same(self, other: Target) -> bool:
        """Do models of both predict the same? Means and deviations of the rows may differ."""
        return type(self) is type(other) and self.column == other.column

    @abstractmethod
    def describe(self, shares: Mapping[str, float], /) -> str:
        """For the screen; `shares` are those of the classes among the training rows."""

    @abstractmethod
    def to_json(self) -> Json:
        """What `target_from_json` reads, with its `kind`."""

    @classmethod
    @abstractmethod
    def from_json(cls, json: Json) -> Target:
        """Inverse of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: invalid content.
        """

    def identity(self) -> Json:
        """The part of the target that the version of the data depends on."""
        return self.to_json()


def least_expected(scores: Floats, costs: Costs) -> Integers:
    """Codes [N] with the least expected cost under probabilities [N, C], the first on ties: the
    minimum over k of the sum over j of p(j) C(j, k) (Elkan 2001, equation 1)."""
    if not len(scores):
        return np.zeros(0, np.int64)
    return np.asarray(np.argmin(scores @ np.array(costs), axis=1), np.int64)


def least_threshold(costs: Costs, positive: int) -> float:
    """Probability from which on the positive of two classes has the least expected cost (Elkan
    2001, equation 2)."""
    negative = 1 - positive
    alarm = costs[negative][positive] - costs[negative][negative]
    miss = costs[positive][negative] - costs[positive][positive]
    return alarm / (alarm + miss)


def costs_of(truth: Integers, chosen: Integers, costs: Costs) -> Floats:
    """Cost of each decision [N]."""
    return np.asarray(np.array(costs)[truth, chosen], np.float64)


def check_costs(costs: Costs, classes: int) -> None:
    """Check costs that were read.

    Raises:
        ValueError: they are not those of so many classes, or an error costs no more than a right
            prediction.
    """
    if len(costs) != classes or any(len(row) != classes for row in costs):
        raise ValueError("costs of other classes")
    for true, row in enumerate(costs):
        if not all(math.isfinite(one) and one >= 0 for one in row):
            raise ValueError("costs that are negative or not finite")
        if min(cost for said, cost in enumerate(row) if said != true) <= row[true]:
            raise ValueError("an error that costs no more than a right prediction")


TARGETS: Mapping[str, type[Target]] = LazyTable(
    {
        "classes": "trainwright.data.columns.class_target:Classes",
        "numbers": "trainwright.data.columns.number_target:Numbers",
        "counts": "trainwright.data.columns.number_target:Numbers",
        "quantiles": "trainwright.data.columns.number_target:Numbers",
        "tokens": "trainwright.data.columns.class_target:NextToken",
        "preferred": "trainwright.data.columns.class_target:Preferred",
        "relevance": "trainwright.data.columns.retrieval_targets:Relevance",
        "forecasts": "trainwright.data.columns.number_target:ForecastTarget",
        "forecast_quantiles": "trainwright.data.columns.number_target:ForecastTarget",
        "matching": "trainwright.data.columns.retrieval_targets:Matching",
        "several_numbers": "trainwright.data.columns.several_targets:SeveralNumbers",
        "labels": "trainwright.data.columns.label_set:LabelSet",
        "passage_matching": "trainwright.data.columns.retrieval_targets:PassageMatching",
    }
)
"""By their kind in JSON."""


def encode_new(target: Target, cells: pl.Series) -> Integers | Floats:
    """Cleaned targets of rows for a model that is trained already: how they are read is settled, so
    that only the rows can change.

    Raises:
        DataMistake: as `encode`, with the rows.
    """
    try:
        return target.encode(cells)
    except DataMistake as mistake:
        rows = ((~target.readable(cells).fill_null(value=False)).arg_true() + 1).to_list()
        shown = f"row{'s' if len(rows) > 1 else ''} {some(rows)}"
        columns = many_columns(target.target_columns)
        fix = f"correct {columns} in {shown} of the input, or remove these rows"
        raise DataMistake([replace(one, fix=fix) for one in mistake.problems]) from None


def many_columns(names: Sequence[str]) -> str:
    """`column 'a'`, or `columns 'a', 'b'`."""
    return f"column{'s' if len(names) > 1 else ''} {quoted(names, 5)}"


def encoded(target: Target, series: pl.Series, space: RowStorage) -> npt.NDArray[Any]:
    """`target.encode`, in chunks into `space`.

    Raises:
        DataMistake: as `encode`, of all rows at once.
    """
    shape = (len(series), target.outputs) if target.target_names else (len(series),)
    found = space.array(shape, target.dtype)
    try:
        for (start, stop), part in zip(bounds(len(series)), slices_of(series), strict=True):
            found[start:stop] = target.encode(part)
    except DataMistake:
        target.encode(series)
        raise
    return found


def target_from_json(value: Json) -> Target:
    """The target that `to_json` wrote.

    Raises:
        ValueError: neither kind.
    """
    kind = value.get("kind")
    if kind not in TARGETS:
        raise ValueError(f"a target of kind {kind!r}")
    return TARGETS[kind].from_json(value)
