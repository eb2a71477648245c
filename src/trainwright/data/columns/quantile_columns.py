"""Targets that are a number, or several of its quantiles: columns, and their order in a row."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl

from trainwright.data.base.table import Floats
from trainwright.data.columns.target_kind import Target

QUANTILE = "quantile_"
"""Name prefix of the columns of predicted quantiles, before the quantile."""

Quantiles = tuple[float, ...]


class QuantileTarget(Target):
    """A number, of which models predict one value or several quantiles."""

    __slots__ = ()

    @property
    def outputs(self) -> int:
        """Outputs of a model: the value."""
        return 1

    @property
    def score_columns(self) -> int:
        """The value, or its quantiles."""
        return max(1, len(self.quantiles))

    @property
    def network_outputs(self) -> int:
        """The same."""
        return self.score_columns

    def arrange(self, scores: Floats) -> Floats:
        """Quantiles of each row ascending."""
        return sorted_rows(scores, self.quantiles)

    def points(self, scores: Floats) -> Floats:
        """The value, or the median."""
        return median_of(scores, self.quantiles)

    def predictions(self, scores: Floats) -> list[pl.Series]:
        """The value; or the median, and a column for each quantile."""
        return predicted_columns(scores, self.quantiles)

    def stored(self, frame: pl.DataFrame) -> tuple[Floats, Floats]:
        """Values [N] and the predicted value [N, 1] or quantiles [N, K]."""
        return frame["target"].to_numpy(), stored_scores(frame, self.quantiles)

    def check(self) -> None:
        """Check the quantiles.

        Raises:
            ValueError: they do not ascend, or the median is not among them.
        """
        check_quantiles(self.quantiles)


def sorted_rows(scores: Floats, quantiles: Quantiles) -> Floats:
    """Quantiles [N, K] of each row ascending, one value [N, 1] unchanged: rearranged ones are not
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
