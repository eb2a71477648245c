"""The target of a ranking: the relevance of each row of a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np
import polars as pl

from trainwright.contract.key_paths import as_key
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.cells.parse_cells import LARGEST, to_labels, to_numbers
from trainwright.data.base.messages import Wrong
from trainwright.data.base.table import Floats, Integers
from trainwright.data.columns.target_kind import Target


@final
@dataclass(frozen=True, slots=True)
class Relevance(Target):
    """How relevant a row is to its query, from 0; `query_column` names the query. Models score each
    row, and only the order of the scores of a query counts."""

    column: str
    query_column: str
    mean: float = 0.0

    kind: ClassVar[str] = "relevance"
    task: ClassVar[Literal["ranking"]] = "ranking"

    @property
    def query(self) -> str:
        """`query_column`."""
        return self.query_column

    @property
    def centre_and_spread(self) -> tuple[float, ...]:
        """A relevance is not standardised."""
        return 0.0, 1.0

    @property
    def outputs(self) -> int:
        """Outputs of a model: the score."""
        return 1

    def encode(self, series: pl.Series) -> Floats:
        """Relevance float64 [N].

        Raises:
            DataMistake: a value is missing, negative, infinite or not a number.
        """
        values = to_numbers(series).series.fill_null(np.nan).to_numpy()
        strange = Wrong()
        strange.add(series.filter(~((values >= 0) & (values <= LARGEST))))
        if strange.count:
            key = f"data.columns.{as_key(self.column)}.values"
            raise DataMistake(
                Problem(
                    f"{many(strange.count, 'row has', 'rows have')} no relevance",
                    path=self.column,
                    found=str(strange),
                    expected="a number of at least 0 in every row: the more relevant, the larger",
                    fix=f'write for example {key}: {{"yes": "1", "no": "0"}}, or repair these rows',
                )
            )
        return values

    def readable(self, cells: pl.Series) -> pl.Series:
        """Which of the cells are relevances."""
        numbers = to_numbers(cells).series
        return (numbers >= 0) & (numbers <= LARGEST)

    def queries(self, frame: pl.DataFrame) -> Integers | None:
        """Code of the query of each row [N].

        Raises:
            DataMistake: a row has none, or there is no such column.
        """
        name = self.query_column
        missing = frame[name].null_count() if name in frame.columns else frame.height
        if missing:
            raise DataMistake(
                Problem(
                    f"{many(missing, 'row names', 'rows name')} no query",
                    path="data.query",
                    found=f"{name!r} is missing",
                    expected="a query in every row",
                    fix="repair these rows, or leave them out of the file",
                )
            )
        return to_labels(frame[name]).rank("dense").cast(pl.Int64).to_numpy()

    def query_columns(self, frame: pl.DataFrame, scores: Floats) -> list[pl.Series]:
        """The rank of each row within its query, from 1, the highest score first; equal scores in
        the order of the rows. None where the rows do not name their query."""
        if self.query_column not in frame.columns:
            return []
        codes = self.queries(frame)
        assert codes is not None
        order = np.lexsort((-scores[:, 0], codes))
        sizes = np.bincount(codes)
        starts = np.repeat(sizes.cumsum() - sizes, sizes)
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order)) - starts + 1
        return [pl.Series("rank", ranks)]

    def is_same(self, other: Target) -> bool:
        """Have both the same target and query?"""
        same = type(self) is type(other) and self.column == other.column
        return same and self.query == other.query

    def describe(self, _shares: Mapping[str, float], /) -> str:
        """The query, and the mean relevance."""
        return f"{self.column}, ranked within {self.query_column} · mean {self.mean:,.5g}"

    def to_json(self) -> Json:
        """What `target_from_json` reads."""
        return {
            "kind": self.kind,
            "column": self.column,
            "query": self.query_column,
            "mean": self.mean,
        }

    @classmethod
    def from_json(cls, json: Json) -> Relevance:
        """Inverse of `to_json`."""
        return cls(json["column"], json["query"], json["mean"])


def fit_relevance(train: pl.Series, query: str) -> Relevance:
    """The target of the training rows [N], numbers already."""
    return Relevance(train.name, query, float(train.to_numpy().mean()))
