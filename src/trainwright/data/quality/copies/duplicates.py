"""Exact duplicates, duplicates with conflicting labels, and agreement of rows by chance."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, final

import numpy as np
import polars as pl

from trainwright.core.formatting import many
from trainwright.data.base.inputs import Integers
from trainwright.data.base.row_storage import spread_rows
from trainwright.data.quality.examined_data import ColumnView, ExaminedData
from trainwright.data.quality.finding import Finding

_EXPECTED = 0.5
"""Equal rows are coincidences if at least this share of their pairs is expected by chance."""

_MOST_ROWS = 50_000
"""Larger data is subsampled evenly to count its pairs."""

_ESTIMATES = 4
_REPEATS, _STEPS = 0.5, 5
_ROWS_TO_COMPARE, _MOST_DETERMINING = 2_000, 20


@final
@dataclass(frozen=True, slots=True)
class EqualPairs:
    """Numbers of pairs of rows that agree in all columns (`equal`) and in all but one (`nearly`),
    and how many equal ones chance explains.

    Among pairs that agree in all columns but j and k, N(j), N(k) and N(j, k) differ in j alone, in
    k alone and in both. If agreement in j says nothing about agreement in k, N(j) N(k) / N(j, k) of
    them are equal by chance. Copies of rows add to none of these numbers.
    """

    equal: float
    nearly: float
    by_chance: float

    @classmethod
    def of(cls, frame: pl.DataFrame, texts: Collection[str]) -> EqualPairs:
        """Count the pairs of a frame's rows. In `texts`, its columns of text, only copies agree."""
        frame = frame[spread_rows(frame.height, _MOST_ROWS)]
        # The column index is the seed so that equal cells of two columns do not cancel out.
        hashes = {name: frame[name].hash(at).to_numpy() for at, name in enumerate(frame.columns)}
        names = [name for name in frame.columns if name not in texts]
        names = _without_determined(names, hashes)
        kept, words = [hashes[name] for name in names], [hashes[name] for name in texts]
        # Unsigned sums wrap, so subtracting a column's hash removes it exactly.
        whole = sum([*kept, *words], start=np.zeros(frame.height, dtype=np.uint64))
        equal = _pairs(whole)
        alone = [_pairs(whole - column) - equal for column in kept]
        if len(kept) == 1 and not words:
            return cls(equal, sum(alone), _equal_in(frame[names[0]]))
        if len(kept) == 2 and not words and sum(alone) >= equal:
            # Nothing is left for an estimate.
            return cls(equal, sum(alone), equal)
        by_chance = 0.0
        for j, k in combinations(np.argsort(alone, kind="stable")[-_ESTIMATES:].tolist(), 2):
            both = _pairs(whole - kept[j] - kept[k]) - equal - alone[j] - alone[k]
            by_chance = max(by_chance, alone[j] * alone[k] / max(1.0, both))
        return cls(equal, sum(alone), by_chance)

    @property
    def are_chance(self) -> bool:
        """Are equal rows expected, since the columns have few values?"""
        return self.by_chance > 0 and self.by_chance >= _EXPECTED * self.equal

    @property
    def are_copies(self) -> bool:
        """Are there more equal pairs than pairs that differ in one column? A sample may have
        neither."""
        return self.equal > self.nearly or not self.nearly


def _equal_in(column: pl.Series) -> float:
    """Pairs of rows that chance makes equal in a column by itself: of numbers on a grid as many as
    there are one step apart, by the mean of five steps to either side, and all of categories most
    of which repeat."""
    values = column.drop_nulls().sort().to_numpy()
    if not column.dtype.is_numeric() or values[:1] == values[-1:]:
        return math.inf if column.n_unique() < _REPEATS * len(column) else 0.0
    step = np.diff(np.unique(values)).min()
    first, last = (np.searchsorted(values, values + far * step) for far in (0.5, _STEPS + 0.5))
    return float((last - first).sum()) / (2 * _STEPS)


def _without_determined(names: list[str], hashes: Mapping[str, np.ndarray]) -> list[str]:
    """Columns without constants and without those that another column determines, as an age
    determines its square: these never differ alone."""
    if not names:
        return []
    rows = spread_rows(len(hashes[names[0]]), _ROWS_TO_COMPARE)
    sampled = {name: hashes[name][rows] for name in names}
    distinct = {name: len(np.unique(column)) for name, column in sampled.items()}
    kept, determining = list[str](), list[str]()
    for name in sorted(names, key=lambda name: -distinct[name]):
        if distinct[name] < 2 or any(
            len(np.unique(sampled[name] + 3 * sampled[other])) == distinct[other]
            for other in determining
        ):
            continue
        kept.append(name)
        if distinct[name] <= _REPEATS * len(rows) and len(determining) < _MOST_DETERMINING:
            determining.append(name)
    return [name for name in names if name in kept]


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
    chance = EqualPairs.of(frame, _texts(data, names)).are_chance
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


def _texts(data: ExaminedData, names: Iterable[str]) -> list[str]:
    return [name for name in names if data.of_name(name).kind == "text"]


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
    chance = often and EqualPairs.of(frame, _texts(data, names)).are_chance
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
