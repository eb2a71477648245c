"""Distributions of rows in which no row can be recognised."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from trainwright.core.files import Json
from trainwright.core.redaction import redact_named
from trainwright.data.base.cells.parse_cells import to_labels
from trainwright.data.base.table import Floats

FEWEST_ROWS: Final = 5
"""Rows below which a category or a tail is not listed."""

_LEVELS: Final = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_MOST_CATEGORIES = 50
_DIGITS = 6


def safe_quantiles(values: Floats) -> dict[str, float]:
    """Quantiles by level, of the finite values, with at least `FEWEST_ROWS` of them on each
    side."""
    values = np.sort(values[np.isfinite(values)])
    count = len(values)
    levels = [q for q in _LEVELS if min(q, 1 - q) * count >= FEWEST_ROWS]
    found = np.quantile(values, levels) if levels else np.empty(0)
    return {str(q): rounded(one) for q, one in zip(levels, found.tolist(), strict=True)}


def safe_shares(labels: pl.Series) -> dict[str, Json]:
    """Shares of the most frequent categories, and of all others together: of those with fewer than
    `FEWEST_ROWS` rows, and those that look like a secret."""
    known = to_labels(labels).drop_nulls().alias("v")
    counts = known.value_counts(sort=True, name="n")
    rows = max(1, len(known))
    pairs = zip(counts["v"].to_list(), counts["n"].to_list(), strict=True)
    ordered = sorted(pairs, key=lambda pair: (-pair[1], str(pair[0])))[:_MOST_CATEGORIES]
    kept = {
        str(name): count
        for name, count in ordered
        if count >= FEWEST_ROWS and redact_named(str(name)) == str(name)
    }
    return {
        "categories": {name: rounded(count / rows) for name, count in kept.items()},
        "other_share": rounded(1 - sum(kept.values()) / rows) if len(known) else 0.0,
    }


def rounded(value: float) -> float:
    """Six significant digits."""
    return float(f"{float(value):.{_DIGITS}g}")
