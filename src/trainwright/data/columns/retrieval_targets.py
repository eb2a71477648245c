"""Targets of a retrieval (which image and which text, or which query and passage), and of a
ranking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.key_paths import as_key
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.messages import Wrong
from trainwright.data.base.parse_cells import LARGEST, to_labels, to_numbers
from trainwright.data.columns.target import Target


class EmbeddedPair(Target):
    """What belongs together is found by embeddings of both sides.

    Encoded values are int64 [N, 2]: codes of both sides of each pair, equal where the sides are.
    Scores are embeddings [N, 2 width] of the two sides, whose product is the logit of the pair.
    """

    __slots__ = ()

    width: int

    task: ClassVar[Literal["retrieval"]] = "retrieval"
    unit: ClassVar[str] = "rows"
    dtype: ClassVar[type[np.int64]] = np.int64

    @property
    def outputs(self) -> int:
        """Both embeddings."""
        return 2 * self.width

    @property
    def centre_and_spread(self) -> tuple[float, ...]:
        """Embeddings are what a network gives."""
        return 0.0, 1.0

    def encode(self, series: pl.Series) -> Integers:
        """Codes of equal texts [N], as `caption_codes` finds them."""
        return caption_codes(series)

    def decode(self, values: npt.NDArray[Any]) -> pl.Series:
        """Codes of the texts."""
        return pl.Series(values[:, 1] if values.ndim > 1 else values)

    def predictions(self, scores: Floats) -> list[pl.Series]:
        """The cosine of both sides of each pair; of one side alone [N, width] its embeddings, of
        length 1."""
        if scores.shape[1] == self.outputs:
            one, other = unit_rows(scores[:, : self.width]), unit_rows(scores[:, self.width :])
            return [pl.Series("prediction", np.einsum("nd,nd->n", one, other))]
        unit = unit_rows(scores)
        return [pl.Series(f"embedding_{at}", unit[:, at]) for at in range(unit.shape[1])]

    def profile(
        self, scores: Floats, _encoded: Integers | Floats, _decided: Integers | None = None
    ) -> dict[str, Json]:
        """Quantiles of the cosine of both sides."""
        from trainwright.data.base.categories import safe_quantiles

        return {"quantiles": safe_quantiles(self.predictions(scores)[0].to_numpy())}

    def is_same(self, other: Target) -> bool:
        """Have both the same two columns?"""
        return type(self) is type(other) and self.identity() == other.identity()

    def identity(self) -> Json:
        """The two columns: the version of the data does not depend on a model."""
        return {**self.to_json(), "width": 1}


@final
@dataclass(frozen=True, slots=True)
class Matching(EmbeddedPair):
    """What belongs to an image is its caption, and the other way round."""

    column: str
    image_column: str
    width: int = 1

    kind: ClassVar[str] = "matching"

    def with_width(self, width: int) -> Matching:
        """The same for embeddings of a width."""
        return replace(self, width=width) if width else self

    def describe(self, _shares: Mapping[str, float], /) -> str:
        """The two columns."""
        return f"{self.column} of each {self.image_column}, and the other way round"

    def to_json(self) -> Json:
        """What `target_from_json` reads."""
        return {
            "kind": self.kind,
            "column": self.column,
            "image_column": self.image_column,
            "width": self.width,
        }

    @classmethod
    def from_json(cls, json: Json) -> Matching:
        """Inverse of `to_json`."""
        return cls(json["column"], json["image_column"], int(json["width"]))


@final
@dataclass(frozen=True, slots=True)
class PassageMatching(EmbeddedPair):
    """What belongs to a query is its passage, or each of its passages."""

    column: str
    query_column: str
    width: int = 1

    kind: ClassVar[str] = "passage_matching"
    is_one_way: ClassVar[bool] = True

    def with_width(self, width: int) -> PassageMatching:
        """The same for embeddings of a width."""
        return replace(self, width=width) if width else self

    def describe(self, _shares: Mapping[str, float], /) -> str:
        """The two columns."""
        return f"{self.column} of each {self.query_column}"

    def to_json(self) -> Json:
        """What `target_from_json` reads."""
        return {
            "kind": self.kind,
            "column": self.column,
            "query_column": self.query_column,
            "width": self.width,
        }

    @classmethod
    def from_json(cls, json: Json) -> PassageMatching:
        """Inverse of `to_json`."""
        return cls(json["column"], json["query_column"], int(json["width"]))


def unit_rows(rows: Floats) -> Floats:
    """Rows [N, D] divided by their lengths."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


def same_text(texts: pl.Series) -> pl.Series:
    """Texts as they are compared: in lower case, with single spaces."""
    return texts.str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars()


def caption_codes(texts: pl.Series) -> Integers:
    """Code of each text [N] from 0; equal ones have one."""
    return same_text(texts.cast(pl.String)).rank("dense").cast(pl.Int64).to_numpy() - 1


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
