"""How often each value of a column occurs."""

from __future__ import annotations

import polars as pl


def counted(series: pl.Series) -> pl.DataFrame:
    """The different values in a column `value` and their rows in a column `count`, the commonest
    first, of equally common ones the smallest. What the series itself is called does not matter: a
    column of data may be called `count`."""
    counts = series.alias("value").value_counts()
    return counts.sort("count", "value", descending=[True, False])
