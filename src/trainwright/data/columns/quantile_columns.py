"""Several quantiles that are predicted of a number: their columns, and their order in a row."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl

from trainwright.data.base.table import Floats

QUANTILE = "quantile_"
"""Name prefix of the columns of predicted quantiles, before the quantile."""

Quantiles = tuple[float, ...]


def sorted_rows(scores: Floats, quantiles: Quantiles) -> Floats:
    """Quantiles [N, K] of each row ascending, one value [N, 1] as it is: rearranged ones are not
    farther from the truth than crossing ones (Chernozhukov et al. 2010, Econometrica 78,
    proposition 4)."""
    return np.sort(scores, axis=1) if quantiles else scores


def median_of(scores: Floats, quantiles: Quantiles) -> Floats:
    """The value [N], or the median among quantiles [N, K]."""
    return scores[:, quantiles.index(0.5) if quantiles else 0]


def predicted_columns(scores: Floats, quantiles: Quantiles) -> list[pl.Series]:
    """`prediction`, the value or the median, and a column for each quantile."""
    each = (pl.Series(name, scores[:, at]) for at, name in enumerate(_names(quantiles)))
    return [pl.Series("prediction", median_of(scores, quantiles)), *each]


def stored_scores(frame: pl.DataFrame, quantiles: Quantiles) -> Floats:
    """Inverse of `predicted_columns`: [N, 1], or quantiles [N, K]."""
    names = _names(quantiles) or ["prediction"]
    return np.stack([frame[name].to_numpy() for name in names], axis=1)


def check_quantiles(quantiles: Quantiles) -> None:
    """Check quantiles that were read.

    Raises:
        ValueError: they do not ascend, or the median is not among them.
    """
    is_ascending = all(low < high for low, high in pairwise((0.0, *quantiles, 1.0)))
    if quantiles and not (is_ascending and 0.5 in quantiles):
        raise ValueError("target.json has quantiles that do not ascend around the median")


def _names(quantiles: Quantiles) -> list[str]:
    return [f"{QUANTILE}{one:g}" for one in quantiles]
