"""Recomputed validation values of kept trees: a stored best iteration and curve are not trusted.

Training values are trusted: they decide nothing, and would cost a prediction of all training rows.

The losses are LightGBM's (4.7, src/metric: regression_metric.hpp, binary_metric.hpp,
multiclass_metric.hpp), on float32 targets as there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import lightgbm
import numpy as np

from trainwright.data.base.table import Floats
from trainwright.model.tree_growth import Grown, next_point

VALUE_TOLERANCE = 1e-9
"""With another number of threads LightGBM sums a value in another order; the trees are the same."""

_LEAST = float(np.float32(1e-15))


@final
@dataclass(frozen=True, slots=True)
class SomeRows:
    """Rows as LightGBM predicts them, with the target [N] and the weight [N] of each."""

    matrix: Any
    target: Floats
    weights: Floats


Slices: TypeAlias = Iterable[SomeRows]


@final
@dataclass(frozen=True, slots=True)
class Replay:
    """Rows and metric of a training. `between` is called after each tree and may raise to end
    it."""

    metric: str
    objective: str
    quantile: float
    threads: int
    between: Callable[[], None]

    def values(self, trees: lightgbm.Booster, slices: Slices) -> Floats:
        """Value of the watched metric after each tree [trees]."""
        sums, total = np.zeros(trees.current_iteration()), 0.0
        for rows in slices:
            raw = np.zeros(())
            for number in range(len(sums)):
                self.between()
                added = trees.predict(
                    rows.matrix,
                    raw_score=True,
                    start_iteration=number,
                    num_iteration=1,
                    num_threads=self.threads,
                )
                raw = raw + np.asarray(added, np.float64)
                sums[number] += float((self._losses(raw, rows.target) * rows.weights).sum())
            total += float(rows.weights.sum())
        means = sums / total
        return np.asarray(np.sqrt(means) if self.metric == "rmse" else means)

    def _losses(self, raw: Floats, target: Floats) -> Floats:
        given = np.exp(raw) if self.objective == "poisson" else raw
        if self.metric == "quantile":
            apart = target - given
            return np.where(apart < 0, self.quantile - 1, self.quantile) * apart
        return np.asarray(_LOSSES[self.metric](given, target))


def _binary(raw: Floats, target: Floats) -> Floats:
    chance = 1 / (1 + np.exp(-raw))
    return -np.log(np.maximum(np.where(target > 0, chance, 1 - chance), _LEAST))


def _several(raw: Floats, target: Floats) -> Floats:
    grown = np.exp(raw - raw.max(axis=1, keepdims=True))
    right = grown[np.arange(len(raw)), target.astype(np.int64)] / grown.sum(axis=1)
    return np.asarray(-np.log(np.maximum(right, _LEAST)))


def _poisson(given: Floats, target: Floats) -> Floats:
    least = np.maximum(given, 1e-10)
    return least - target * np.log(least)


_LOSSES: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "l2": lambda given, target: (target - given) ** 2,
    "rmse": lambda given, target: (target - given) ** 2,
    "l1": lambda given, target: np.abs(target - given),
    "mape": lambda given, target: np.abs(target - given) / np.maximum(1.0, np.abs(target)),
    "poisson": _poisson,
    "binary_logloss": _binary,
    "multi_logloss": _several,
}


def contradiction(grown: Grown, values: Floats) -> str:
    """First part of the kept state that contradicts its trees, empty if none does. `values` [trees]
    are those after each tree, none without validation rows."""
    if not len(values):
        has_state = grown.best_trees or grown.best_round or grown.curve or grown.next_point != 1.0
        return "a best tree without validation rows" if has_state else ""
    if not _close(grown.value, values[grown.trees - 1], values):
        return "the validation value of the last kept tree"
    if not _is_best(grown, values):
        return f"the best of {grown.trees:,} kept trees"
    points, following = curve_trees(grown.trees, closed=grown.is_done)
    if [point.trees for point in grown.curve] != points or grown.next_point != following:
        return "the curve of the kept trees"
    for point in grown.curve:
        if not _close(point.validation, values[point.trees - 1], values):
            return f"the validation value of kept tree {point.trees:,}"
    return ""


def curve_trees(trees: int, *, closed: bool) -> tuple[list[int], float]:
    """Trees at which a curve of this length has its points, and the next one due; once training is
    `closed`, the last tree has a point."""
    points: list[int] = []
    due = 1.0
    while due <= trees:
        points.append(math.ceil(due))
        due = next_point(points[-1])
    if closed and points[-1:] != [trees]:
        points.append(trees)
        due = next_point(trees)
    return points, due


def _is_best(grown: Grown, values: Floats) -> bool:
    """Is no other tree better? Rounds without a split, which leave no record, make the best tree
    ambiguous among equal values."""
    best, without = grown.best_trees, grown.rounds - grown.trees
    if not (best >= 1 and 0 <= grown.best_round - best <= without):
        return False
    least = float(values.min())
    is_least = least >= values[best - 1] or _close(least, values[best - 1], values)
    return is_least and _close(grown.best_value, values[best - 1], values)


def _close(kept: float, value: float, values: Floats) -> bool:
    return math.isclose(
        kept, value, rel_tol=VALUE_TOLERANCE, abs_tol=1e-12 * float(np.abs(values).max())
    )
