"""Labels that a row has or has not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.categories import rounded
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.messages import Wrong, quoted, some
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.columns.class_target import Classes
from trainwright.data.columns.several_targets import (
    MOST_SHOWN,
    PREDICTION,
    SCORE,
    TRUTH,
    and_more,
    check_names,
    named_columns,
    read_named,
)
from trainwright.data.columns.target import LIKELY, Target

HAS, HAS_NOT = frozenset({"1", "true", "yes"}), frozenset({"0", "false", "no"})
"""How a cell of a label's own column is written, in any case."""


@final
@dataclass(frozen=True, slots=True)
class LabelSet(Target):
    """L labels, each of which a row has or has not. Without a `separator` each is a column of its
    own; with one, the labels of a row stand in one column. `shares` are those of the training rows
    that have each label."""

    column: str
    names: tuple[str, ...]
    shares: tuple[float, ...]
    separator: str = ""
    empty: Literal["missing", "none"] = "missing"

    kind: ClassVar[str] = "labels"
    task: ClassVar[Literal["multilabel"]] = "multilabel"
    dtype: ClassVar[type[np.int64]] = np.int64

    @property
    def outputs(self) -> int:
        """Outputs of a model: one for each label."""
        return len(self.names)

    @property
    def target_names(self) -> tuple[str, ...]:
        """`names`."""
        return self.names

    @property
    def singles(self) -> tuple[Target, ...]:
        """Each as two classes, of which having it is the positive one."""
        return tuple(Classes(name, ("0", "1"), 1, "integer") for name in self.names)

    @property
    def target_columns(self) -> tuple[str, ...]:
        """One column, or one for each label."""
        return (self.column,) if self.separator else self.names

    def cells(self, frame: pl.DataFrame) -> pl.Series:
        """The column of labels, or the columns as one of structs."""
        if not self.separator:
            return frame.select(pl.struct(self.names).alias(self.column)).to_series()
        cells = frame[self.column]
        return cells.fill_null("") if self.empty == "none" else cells

    def encode(self, series: pl.Series) -> Integers:
        """1 where a row has a label, else 0: int64 [N, L].

        Raises:
            DataMistake: a cell is missing or neither, or a label is unseen in training.
        """
        if self.separator:
            return self._from_lists(series)
        columns = [_flags(series.struct.field(name)) for name in self.names]
        return np.stack(columns, axis=1) if len(series) else np.zeros((0, self.outputs), np.int64)

    def _from_lists(self, series: pl.Series) -> Integers:
        lists = label_lists(series, self.separator)
        if missing := lists.null_count():
            raise DataMistake(
                Problem(
                    f"{many(missing, 'row says', 'rows say')} nothing of their labels",
                    path=self.column,
                    found="empty cells",
                    expected="labels in every row",
                    fix="repair these rows",
                )
            )
        strange = Wrong()
        known = list(self.names)
        each = lists.explode()
        strange.add(each.filter(each.is_not_null() & ~each.is_in(known)))
        if strange.count:
            raise DataMistake(
                Problem(
                    f"{many(strange.count, 'label is', 'labels are')} unseen in training",
                    path=self.column,
                    found=str(strange),
                    expected=quoted(known, 10),
                    fix="leave these rows out, or mend spellings with data.columns",
                )
            )
        found = np.zeros((len(series), self.outputs), np.int64)
        for at, name in enumerate(self.names):
            found[:, at] = lists.list.contains(name).to_numpy()
        return found

    def readable(self, cells: pl.Series) -> pl.Series:
        """Which of the cells say of every label whether a row has it."""
        if self.separator:
            lists = label_lists(cells, self.separator)
            known = pl.Series([list(self.names)])
            return lists.list.set_difference(known).list.len() == 0
        fits = pl.repeat(value=True, n=len(cells), eager=True)
        for name in self.names:
            fits = fits & says_yes_or_no(cells.struct.field(name))
        return fits

    def truths(self, values: npt.NDArray[Any]) -> list[pl.Series]:
        """A column of 0 and 1 for each label."""
        return named_columns(TRUTH, self.names, values)

    def predictions(self, scores: Floats) -> list[pl.Series]:
        """Whether a row is given each label, and the probability of each."""
        given = (scores >= LIKELY).astype(np.int64)
        return [
            *named_columns(PREDICTION, self.names, given),
            *named_columns(SCORE, self.names, scores),
        ]

    def decisions(self, decided: Integers) -> list[pl.Series]:
        """Whether a row is given each label."""
        return named_columns(PREDICTION, self.names, decided)

    def stored_decisions(self, frame: pl.DataFrame) -> Integers:
        """As `decisions` wrote them."""
        return read_named(frame, PREDICTION, self.names).astype(np.int64)

    def profile(
        self, scores: Floats, encoded: Integers | Floats, decided: Integers | None = None
    ) -> dict[str, Json]:
        """Share of the rows that are given each label, and its mean probability."""
        del encoded
        given = (scores >= LIKELY) if decided is None else decided
        both = {"shares": given.mean(axis=0), "mean_probabilities": scores.mean(axis=0)}
        return {
            key: dict(zip(self.names, map(rounded, values.tolist()), strict=True))
            for key, values in both.items()
        }

    def stored(self, frame: pl.DataFrame) -> tuple[Integers, Floats]:
        """Whether rows have each label [N, L], and its probability [N, L]."""
        truth = read_named(frame, TRUTH, self.names).astype(np.int64)
        return truth, read_named(frame, SCORE, self.names)

    def category_values(self, encoded: Integers | Floats) -> tuple[Floats, tuple[str, ...]]:
        """The share of each label."""
        return np.asarray(encoded, np.float64), self.names

    def is_same(self, other: Target) -> bool:
        """Have both the same labels in the same order?"""
        return type(self) is type(other) and self.names == other.target_names

    def describe(self, _shares: Mapping[str, float], /) -> str:
        """The shares of the first ones."""
        each = list(zip(self.names, self.shares, strict=True))
        shown = [f"{name} {share:.1%}" for name, share in each[:MOST_SHOWN]]
        return f"{len(each)} labels · " + ", ".join(shown) + and_more(len(each))

    def check(self) -> None:
        """Check the names.

        Raises:
            ValueError: they cannot be those of several labels.
        """
        check_names(self.names)
        if len(self.shares) != len(self.names) or not all(0 <= one <= 1 for one in self.shares):
            raise ValueError("target.json has shares of labels that are impossible")
        if self.empty not in ("missing", "none"):
            raise ValueError("target.json says something else of empty cells")

    def to_json(self) -> Json:
        """What `target_from_json` reads."""
        return {
            "kind": self.kind,
            "column": self.column,
            "names": list(self.names),
            "shares": list(self.shares),
            "separator": self.separator,
            "empty": self.empty,
        }

    @classmethod
    def from_json(cls, json: Json) -> LabelSet:
        """Inverse of `to_json`."""
        return cls(
            json["column"],
            tuple(json["names"]),
            tuple(map(float, json["shares"])),
            json["separator"],
            json["empty"],
        )


def label_lists(series: pl.Series, separator: str) -> pl.Series:
    """The labels of each cell, as lists of stripped text; missing where a cell is."""
    split = to_labels(series).str.split(separator)
    frame = pl.DataFrame({"lists": split})
    stripped = pl.col("lists").list.eval(
        pl.element().str.strip_chars().filter(pl.element().str.strip_chars() != "")
    )
    return frame.select(stripped).to_series()


def says_yes_or_no(cells: pl.Series) -> pl.Series:
    """Which of the cells of a label's own column can be read; missing where they are."""
    return to_labels(cells).str.to_lowercase().is_in(sorted(HAS | HAS_NOT))


def _flags(cells: pl.Series) -> Integers:
    """1 or 0 of each cell of a label's own column.

    Raises:
        DataMistake: a cell is neither.
    """
    words = to_labels(cells).str.to_lowercase()
    has, has_not = words.is_in(sorted(HAS)), words.is_in(sorted(HAS_NOT))
    wrong = ~(has | has_not).fill_null(value=False)
    if wrong.any():
        strange = Wrong()
        strange.add(cells.filter(wrong))
        raise DataMistake(
            Problem(
                f"{many(strange.count, 'row says', 'rows say')} neither yes nor no to a label",
                path=cells.name,
                found=str(strange),
                expected="1 or 0, true or false, yes or no",
                fix="repair these rows, or leave the column out of data.target",
            )
        )
    return has.cast(pl.Int64).to_numpy()


def fit_label_set(
    train: pl.DataFrame,
    columns: Sequence[str],
    separator: str,
    empty: Literal["missing", "none"],
) -> LabelSet:
    """The labels of the training rows, those of one column in alphabetical order.

    Raises:
        DataMistake: a cell says neither yes nor no, there are fewer than two labels, or every
            training row has one, or none has.
    """
    column = ", ".join(columns)
    names = tuple(columns)
    if separator:
        cells = train[column].fill_null("")
        names = tuple(label_lists(cells, separator).explode().drop_nulls().unique().sort())
        _check_count(names, column, separator)
    plain = LabelSet(column, names, tuple(0.0 for _ in names), separator, empty)
    encoded = plain.encode(plain.cells(train))
    shares = encoded.mean(axis=0)
    if same := [name for name, share in zip(names, shares, strict=True) if share in (0.0, 1.0)]:
        raise DataMistake(
            Problem(
                f"the training rows all agree on {many(len(same), 'label')}",
                path="data.target",
                found=f"{some(same, MOST_SHOWN)}: the same in every training row",
                expected="of each label some training rows that have it, and some that have not",
                fix="leave these labels out, or add rows",
            )
        )
    return LabelSet(column, names, tuple(map(float, shares)), separator, empty)


def _check_count(names: Sequence[str], column: str, separator: str) -> None:
    if len(names) < 2:
        raise DataMistake(
            Problem(
                "the training rows have fewer than two labels",
                path="data.labels.separator",
                found=f"{quoted(names)} in {column!r}, separated by {separator!r}",
                expected="at least two labels",
                fix="name what stands between two labels of a cell, or remove data.labels",
            )
        )
