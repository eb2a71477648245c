"""Exact duplicates, duplicates with conflicting labels, and agreement of rows by chance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np
import polars as pl

from trainwright.core.formatting import many
from trainwright.data.base.inputs import Integers
from trainwright.data.base.row_storage import spread_rows
from trainwright.data.quality.examined_data import ColumnView, ExaminedData
from trainwright.data.quality.finding import Finding

MOSTLY = 0.6
"""Equal rows are coincidences if this share of their pairs is expected by chance."""

_HARDLY = 0.1
"""The same for rows that agree in all columns but one."""

_MOST_ROWS, _MOST_COLUMNS = 50_000, 20
"""Larger data is subsampled evenly to estimate the expected agreement."""

_BESIDE = 5
"""A column repeats if a row shares its value with this many others on average."""


@final
@dataclass(frozen=True, slots=True)
class Agreement:
    """N rows of F columns: a 64-bit hash of every cell, uint64 [N, F], and which columns may agree
    by chance: not texts, and not labels, in which a copy may differ."""

    hashes: np.ndarray
    explains: tuple[bool, ...]

    @classmethod
    def of(cls, frame: pl.DataFrame, no_chance: frozenset[str]) -> Agreement:
        """Hash the cells of a frame; `no_chance` are its text and label columns."""
        # The column index is in the seed so that equal cells of two columns do not cancel out.
        columns = [series.hash(seed=at).to_numpy() for at, series in enumerate(frame)]
        return cls(
            np.stack(columns, axis=1), tuple(name not in no_chance for name in frame.columns)
        )

    def by_chance(self) -> bool:
        """Are most pairs of equal rows expected by chance, since the columns have few values?

        Two columns must agree on this: a single nearly constant column would excuse every copy
        because of the few rows in which it differs. With only one usable column, its values must
        repeat.
        """
        chance = _Chance.of(self)
        if len(chance.agree) == 1 and min(chance.agree.values()) * len(self.hashes) < _BESIDE:
            return False
        shares = chance.shares(_pairs(_whole(self.hashes)))
        return sum(share >= MOSTLY for share in shares) >= min(2, max(1, len(chance.agree)))

    def but_for_one(self, columns: Integers) -> Integers:
        """Pairs [P, 2] of consecutive rows that agree in all columns but one of `columns`, beyond
        chance."""
        whole, chance = _whole(self.hashes), _Chance.of(self)
        found = [np.empty((0, 2), dtype=np.int64)]
        for at in columns.tolist():
            keys = whole - self.hashes[:, at]
            order = np.argsort(keys, kind="stable")
            same = keys[order[1:]] == keys[order[:-1]]
            if not same.any():
                continue
            if all(share < _HARDLY for share in chance.shares(_pairs(keys), at)):
                found.append(np.stack([order[:-1][same], order[1:][same]], axis=1))
        return np.concatenate(found)


@final
@dataclass(frozen=True, slots=True)
class _Chance:
    """Expected agreement by chance, estimated on an even subsample of rows [n] (`hashes`, `whole`)
    and of non-constant columns: for each column the probability that two rows agree in it. `scale`
    is the number of pairs in all rows per sampled pair."""

    hashes: np.ndarray
    whole: np.ndarray
    agree: Mapping[int, float]
    scale: float

    @classmethod
    def of(cls, rows: Agreement) -> _Chance:
        size = len(rows.hashes)
        hashes = rows.hashes[spread_rows(size, _MOST_ROWS)]
        able = np.flatnonzero(rows.explains)
        chosen = able[spread_rows(len(able), _MOST_COLUMNS)].tolist()
        every = len(hashes) * (len(hashes) - 1) / 2
        agree = {at: _pairs(hashes[:, at]) / every for at in chosen}
        telling = {at: chance for at, chance in agree.items() if chance < 1}
        return cls(hashes, _whole(hashes), telling, (size / len(hashes)) ** 2)

    def shares(self, pairs: float, *without: int) -> Iterator[float]:
        """Share of the `pairs` that agree in all columns but `without` that is expected by chance,
        one estimate for each remaining column.

        The expectation is the number of pairs that agree in one column fewer, times the probability
        of agreeing in that column: higher than under full independence where columns are
        correlated.
        """
        keys = self.whole
        for at in without:
            keys = keys - self.hashes[:, at]
        seen = _pairs(keys)
        for at, agree in self.agree.items():
            if at not in without:
                others = self.scale * (_pairs(keys - self.hashes[:, at]) - seen)
                yield others * agree / (1 - agree) / max(1.0, pairs)


def _whole(hashes: np.ndarray) -> np.ndarray:
    """Row hash [N] of cell hashes [N, F], equal where rows agree in all columns. Unsigned sums
    wrap, so subtracting a column's hash removes it exactly."""
    keys: np.ndarray = hashes.sum(axis=1, dtype=np.uint64)
    return keys


def _pairs(keys: np.ndarray) -> float:
    """Number of pairs of rows with equal keys."""
    counts = np.unique(keys, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1)).sum()) / 2


_FEW = 0.001
_ALIKE = {
    "exact_duplicates": ("equals", "equal"),
    "near_duplicates": ("is nearly", "are nearly"),
}
_LEAKAGE = " (leakage)"
_CHANCE = "; with so few distinct values, rows are equal by chance"


def exact_duplicates(data: ExaminedData) -> list[Finding]:
    """Rows equal to an earlier row in every column but identifiers, and those of validation and
    test that equal a training row. Informational where the rows have so few distinct values that
    chance explains them."""
    names = [look.name for look in compared(data.looks)]
    if not set(names) - {data.target} or len(data) < 2:
        return []
    frame = typed_frame(data, names)
    first = first_of_each(frame)
    copies = np.flatnonzero(first != np.arange(len(data)))
    if not len(copies):
        return []
    chance = _by_chance(data, frame)
    originals = len(np.unique(first[copies]))
    text = many(len(copies), "row repeats", "rows repeat")
    text += f" an earlier row ({many(originals, 'different row')})"
    finding = Finding(
        "exact_duplicates",
        "info" if chance else "warning",
        text + (_CHANCE if chance else ""),
        len(copies),
        data.places(copies),
        fix="data.quality.actions: {exact_duplicates: drop} keeps the first in training",
    )
    across = across_parts(data, first, "exact_duplicates")
    if chance:
        across = [
            replace(one, severity="info", message=one.message.removesuffix(_LEAKAGE) + _CHANCE)
            for one in across
        ]
    return [finding, *across]


def _by_chance(data: ExaminedData, frame: pl.DataFrame) -> bool:
    """Are the equal rows expected by chance, given so few distinct values?"""
    texts = {look.name for look in data.looks if look.kind == "text"}
    return Agreement.of(frame, frozenset({*texts, data.target})).by_chance()


def across_parts(
    data: ExaminedData,
    group: Integers,
    kind: Literal["exact_duplicates", "near_duplicates"],
) -> list[Finding]:
    """Validation and test rows whose group (int64 [N]) also has a training row."""
    trained = np.unique(group[data.parts == 0])
    crossing = np.flatnonzero((data.parts != 0) & np.isin(group, trained))
    if not len(crossing):
        return []
    held = int((data.parts != 0).sum())
    one, several = _ALIKE[kind]
    like = many(
        len(crossing), f"validation or test row {one}", f"validation or test rows {several}"
    )
    return [
        Finding(
            kind,
            "warning",
            f"{like} a training row, of {held:,} in total{_LEAKAGE}",
            len(crossing),
            data.places(crossing),
            fix=f"data.quality.actions: {{{kind}: drop}} removes such rows from training",
        )
    ]


def conflicting_labels(data: ExaminedData) -> list[Finding]:
    """Rows with equal features and different classes."""
    names = [look.name for look in compared(data.features)]
    if data.task != "classes" or not names or len(data) < 2:
        return []
    frame = typed_frame(data, names)
    first = first_of_each(frame)
    table = pl.DataFrame({"group": first, "label": data.labels})
    # A missing label is not a class of its own.
    classes = pl.col("label").drop_nulls().n_unique().over("group")
    split = table.select(((classes > 1) & pl.col("label").is_not_null()).alias("x"))["x"]
    rows = split.arg_true()
    if not len(rows):
        return []
    groups = table.filter(split)["group"].n_unique()
    often = len(rows) > _FEW * len(data)
    chance = often and _by_chance(data, frame)
    return [
        Finding(
            "conflicting_labels",
            "warning" if often and not chance else "info",
            f"{len(rows):,} rows in {many(groups, 'group')} have equal features but "
            "different classes: no model can get all of them right" + (_CHANCE if chance else ""),
            len(rows),
            data.places(rows),
            (data.target,),
            "inspect them: labels may be wrong, or an informative column is missing",
        )
    ]


def compared(looks: Iterable[ColumnView]) -> list[ColumnView]:
    """Columns compared for duplicates: no identifiers, which would hide every copy."""
    return [
        look
        for look in looks
        if look.kind not in ("nested", "empty") and not look.reason.startswith("identifier")
    ]


def typed_frame(data: ExaminedData, names: list[str]) -> pl.DataFrame:
    """Typed values of these columns; text, and cells that do not parse, keep their spelling."""
    wanted = set(names)
    looks = [look for look in data.looks if look.name in wanted]
    return pl.DataFrame([_comparable(data, look) for look in looks])


def _comparable(data: ExaminedData, look: ColumnView) -> pl.Series:
    if look.kind == "text":
        return data.raw[look.name]
    return look.cells if len(look.bad) else look.values


def first_of_each(frame: pl.DataFrame) -> Integers:
    """Index [N] of the first row equal to each row, its own for the first. Rows are compared by
    value, not by hash."""
    numbered = frame.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("\x00row"))
    first = numbered.select(pl.col("\x00row").first().over(frame.columns))
    return first.to_series().to_numpy()


def first_of_group(size: int, pairs: Integers) -> Integers:
    """Index [N] of the first member of each row's connected component under `pairs` [P, 2]; N is
    `size`."""
    # Imported here to keep text and image runs free of it.
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(len(pairs), dtype=np.int8)
    graph = coo_matrix((ones, (pairs[:, 0], pairs[:, 1])), shape=(size, size))
    _, group = connected_components(graph, directed=False)
    first = np.full(group.max() + 1, size, dtype=np.int64)
    np.minimum.at(first, group, np.arange(size))
    members: Integers = first[group]
    return members
