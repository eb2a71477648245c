"""Exact duplicates, and duplicates with conflicting labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import numpy as np
import polars as pl

from trainwright.core.formatting import many
from trainwright.data.base.table import Integers
from trainwright.data.quality.copies.chance_agreement import Agreement
from trainwright.data.quality.examined_data import ColumnView, ExaminedData
from trainwright.data.quality.finding import Finding

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
