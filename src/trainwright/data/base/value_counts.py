"""How often each value of a column occurs."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl


def count_values(series: pl.Series) -> pl.DataFrame:
    """The different values in a column `value` and their rows in a column `count`, the commonest
    first, of equally common ones the smallest. What the series itself is called does not matter: a
    column of data may be called `count`."""
    return _ordered(series.alias("value").value_counts())


def counted_slices(slices: Iterable[pl.Series]) -> pl.DataFrame:
    """The same for a column that comes in slices, of which the different values alone are held."""
    counts = pl.concat([count_values(one) for one in slices])
    return _ordered(counts.group_by("value").agg(pl.col("count").sum()))


def _ordered(counts: pl.DataFrame) -> pl.DataFrame:
    return counts.sort("count", "value", descending=[True, False])
