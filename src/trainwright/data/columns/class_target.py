"""Targets that are one of several: classes, the next token of a text, the preferred answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, final, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.key_paths import as_key
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.messages import Wrong, quoted
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.columns.target import Costs, Target, check_costs

PROBABILITY = "probability_"
"""Name prefix of probability columns, before the class."""

LabelType = Literal["text", "integer", "boolean"]


_MOST_SHOWN = 4


@final
@dataclass(frozen=True, slots=True)
class Classes(Target):
    """Sorted labels of the training rows; a label's code is its position. `positive` is the code of
    the positive class (two classes only); `column` is the target's name, `written` the original
    type of its labels. If `ordered`, the labels stand from the lowest to the highest.
    `error_costs` are the contract's, if it has any; the data does not depend on them."""

    column: str
    names: tuple[str, ...]
    positive: int
    written: LabelType = "text"
    ordered: bool = False
    error_costs: Costs = ()

    kind: ClassVar[str] = "classes"
    task: ClassVar[Literal["classification"]] = "classification"
    dtype: ClassVar[type[np.int64]] = np.int64

    @property
    def outputs(self) -> int:
        """Outputs of a model: one per class."""
        return len(self.names)

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels."""
        return self.names

    @property
    def is_ordered(self) -> bool:
        """`ordered`."""
        return self.ordered

    @property
    def costs(self) -> Costs:
        """`error_costs`."""
        return self.error_costs

    def with_costs(self, costs: Mapping[str, Mapping[str, float]]) -> Classes:
        """The same with the costs of these classes; without, if some of them have none."""
        if not set(self.names) <= set(costs):
            return self
        rows = (tuple(costs[true].get(said, 0.0) for said in self.names) for true in self.names)
        return replace(self, error_costs=tuple(rows))

    @property
    def positive_code(self) -> int:
        """`positive`."""
        return self.positive

    def encode(self, series: pl.Series) -> Integers:
        """Codes int64 [N] of cleaned labels.

        Raises:
            DataMistake: a label is missing or unseen in training.
        """
        labels = to_labels(series)
        strange = Wrong()
        strange.add(labels.filter(~labels.is_in(list(self.names)) | labels.is_null()))
        if strange.count:
            rows = many(strange.count, "row has", "rows have")
            raise DataMistake(
                Problem(
                    f"{rows} a class unseen in training",
                    path=self.column,
                    found=str(strange),
                    expected=quoted(self.names, 10),
                    fix="use a stratified split, leave these rows out, or mend spellings with "
                    f"data.columns.{as_key(self.column)}.values",
                )
            )
        codes = list(range(len(self.names)))
        return labels.replace_strict(self.names, codes, return_dtype=pl.Int64).to_numpy()

    def readable(self, cells: pl.Series) -> pl.Series:
        """Which of the cells are known labels."""
        return to_labels(cells).is_in(list(self.names))

    def decode(self, values: npt.NDArray[Any]) -> pl.Series:
        """Labels of codes."""
        return self.labels_of(np.asarray(values, np.int64))

    def stored(self, frame: pl.DataFrame) -> tuple[Integers | Floats, Floats]:
        """Codes [N] and probabilities [N, C]."""
        truth = self.encode(frame["target"].cast(pl.String))
        columns = [frame[f"{PROBABILITY}{name}"].to_numpy() for name in self.names]
        return truth, np.stack(columns, axis=1)

    def category_values(self, encoded: Integers | Floats) -> tuple[Floats, tuple[str, ...]]:
        """The share of the positive of two classes, or that of each class."""
        if len(self.names) == 2:
            return (encoded == self.positive)[:, None].astype(np.float64), ("",)
        each = encoded[:, None] == np.arange(len(self.names))
        return each.astype(np.float64), self.names

    def is_same(self, other: Target) -> bool:
        """Have both the same classes in the same order?"""
        return bool(self.identity() == other.identity())

    def describe(self, shares: Mapping[str, float], /) -> str:
        """The commonest classes, and the positive one."""
        common = sorted(shares.items(), key=lambda pair: -pair[1])[:_MOST_SHOWN]
        shown = ", ".join(f"{name} {share:.1%}" for name, share in common)
        names = self.names
        positive = f" · positive {names[self.positive]}" if len(names) == 2 else ""
        more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
        return f"{self.column} · {shown}{more}{positive}"

    def check(self) -> None:
        """Check the names of the classes, their type and the positive one.

        Raises:
            ValueError: they cannot be those of a target.
        """
        if len(self.names) < 2 or len(set(self.names)) < len(self.names):
            raise ValueError("target.json names a class twice, or fewer than two")
        if not -1 <= self.positive < len(self.names):
            raise ValueError("target.json names a positive class that there is not")
        self.labels_of(np.arange(len(self.names)))
        if self.costs:
            check_costs(self.costs, len(self.names))

    def labels_of(self, codes: Integers) -> pl.Series:
        """Labels of codes int64 [N], in their original type."""
        names = pl.Series(self.names, dtype=pl.String)
        match self.written:
            case "integer":
                names = names.cast(pl.Int64)
            case "boolean":
                names = names == "true"
            case "text":
                pass
        return names.gather(codes)

    def predictions(self, scores: Floats) -> list[pl.Series]:
        """Argmax class of each row of probabilities [N, C], and a column for each class."""
        chosen = np.argmax(scores, axis=1) if len(scores) else np.zeros(0, np.int64)
        each = (
            pl.Series(f"{PROBABILITY}{name}", scores[:, i]) for i, name in enumerate(self.names)
        )
        return [self.labels_of(chosen).alias("prediction"), *each]

    def identity(self) -> Json:
        """The part of the target that a model depends on."""
        return {
            "kind": self.kind,
            "column": self.column,
            "names": list(self.names),
            "positive": self.positive,
            **({"ordered": True} if self.ordered else {}),
        }

    def to_json(self) -> Json:
        """What `target_from_json` reads."""
        typed = {} if self.written == "text" else {"written": self.written}
        costs = {"costs": list(map(list, self.costs))} if self.costs else {}
        return {**self.identity(), **typed, **costs}

    @classmethod
    def from_json(cls, json: Json) -> Classes:
        """Inverse of `to_json`."""
        written = json.get("written", "text")
        if written not in get_args(LabelType):
            raise ValueError(f"labels written as {written!r}")
        ordered = json.get("ordered", False)
        costs = tuple(tuple(map(float, row)) for row in json.get("costs", ()))
        names = tuple(json["names"])
        return cls(json["column"], names, json["positive"], written, ordered, costs)


@final
@dataclass(frozen=True, slots=True)
class NextToken(Target):
    """Next-token target with a vocabulary of `size`. Evaluation is by the negative log-likelihood
    of segments of the text, so a part's target is the token count of each segment."""

    size: int
    column: str = "tokens"

    kind: ClassVar[str] = "tokens"
    task: ClassVar[Literal["generation"]] = "generation"
    unit: ClassVar[str] = "tokens"
    profiled_rows: ClassVar[int] = 32

    @property
    def outputs(self) -> int:
        """Outputs of a model for each position: one per token."""
        return self.size

    @property
    def score_columns(self) -> int:
        """The negative log-likelihood of a segment."""
        return 1

    @property
    def tokens(self) -> int:
        """The size of the vocabulary."""
        return self.size

    def encode(self, series: pl.Series) -> Floats:
        """Tokens of each segment, float64 [N]."""
        return series.cast(pl.Float64).to_numpy()

    def to_json(self) -> Json:
        """What `target_from_json` reads."""
        return {"kind": self.kind, "size": self.size}

    def describe(self, _shares: Mapping[str, float], /) -> str:
        """No more than that."""
        return "the next token"

    @classmethod
    def from_json(cls, json: Json) -> NextToken:
        """Inverse of `to_json`."""
        return cls(int(json["size"]))


@final
@dataclass(frozen=True, slots=True)
class Preferred(Target):
    """Which of two answers is preferred, by a model with a vocabulary of `size`. A pair is scored
    by its margin, the reward of the chosen answer minus that of the rejected one; so a part's
    target is 0 for each pair, which margins are compared with."""

    size: int
    column: str = "chosen"

    kind: ClassVar[str] = "preferred"
    task: ClassVar[Literal["generation"]] = "generation"
    unit: ClassVar[str] = "pairs"

    @property
    def outputs(self) -> int:
        """Outputs of a model for each position: one per token."""
        return self.size

    @property
    def score_columns(self) -> int:
        """The margin."""
        return 1

    @property
    def tokens(self) -> int:
        """The size of the vocabulary."""
        return self.size

    @property
    def is_paired(self) -> bool:
        """Is it which of two answers is preferred?"""
        return True

    def encode(self, series: pl.Series) -> Floats:
        """Zeros, [N]."""
        return np.zeros(len(series))

    def to_json(self) -> Json:
        """What `target_from_json` reads."""
        return {"kind": self.kind, "size": self.size}

    def describe(self, _shares: Mapping[str, float], /) -> str:
        """No more than that."""
        return "the preferred answer"

    @classmethod
    def from_json(cls, json: Json) -> Preferred:
        """Inverse of `to_json`."""
        return cls(int(json["size"]))
