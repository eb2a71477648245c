"""Value counts of a column."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl


def count_values(series: pl.Series) -> pl.DataFrame:
    """Distinct values in a column `value` and row counts in a column `count`, by descending count,
    then ascending value. The name of the series is irrelevant: a data column may be called
    `count`."""
    return _ordered(series.alias("value").value_counts())


def counted_slices(slices: Iterable[pl.Series]) -> pl.DataFrame:
    """Value counts of a column in chunks; only distinct values are held."""
    counts = pl.concat([count_values(one) for one in slices])
    return _ordered(counts.group_by("value").agg(pl.col("count").sum()))


def _ordered(counts: pl.DataFrame) -> pl.DataFrame:
    return counts.sort("count", "value", descending=[True, False])
