"""One LightGBM model for each of several quantiles, grown side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np

from trainwright.data.base.table import Floats, Inputs
from trainwright.model.boosting.growing_trees import NO_GRADES, GrowingTrees, grow_side_by_side
from trainwright.model.boosting.lightgbm_dataset import build_dataset
from trainwright.model.boosting.lightgbm_trees import Boosted, BoostingJob
from trainwright.model.boosting.several_boosted import SeveralBoosted, read_about, read_several
from trainwright.model.tree_growth import CurvePoint, Watching

_METRIC = "quantile"


@final
@dataclass(frozen=True, slots=True)
class BoostedQuantiles(SeveralBoosted):
    """Trees of each quantile. Scores are the quantiles [N, K], unsorted: of a row a higher one may
    be below a lower one."""

    quantiles: tuple[float, ...]
    each: tuple[Boosted, ...]
    curve: tuple[CurvePoint, ...] = ()
    metric: str = _METRIC

    def score(self, inputs: Inputs) -> Floats:
        """Quantiles [N, K]."""
        return np.concatenate([one.score(inputs) for one in self.each], axis=1)

    def contributions(self, inputs: Inputs) -> Floats:
        """As `AttributingScorer`, of the median."""
        return self.each[self.quantiles.index(0.5)].contributions(inputs)

    def write(self, folder: Path) -> None:
        """Write what `read_quantiles` reads; `model.txt` holds the trees of the lowest."""
        self._write(folder, 1, {"quantiles": list(self.quantiles)})


def names_quantiles(folder: Path) -> bool:
    """Does the folder hold trees of several quantiles?"""
    return "quantiles" in read_about(folder)


def read_quantiles(folder: Path) -> BoostedQuantiles:
    """Read what `BoostedQuantiles.write` wrote.

    Raises:
        KeyError, TypeError, ValueError: invalid content, found before LightGBM reads it.
    """
    about = read_about(folder)
    quantiles = tuple(map(float, about["quantiles"]))
    if 0.5 not in quantiles or not all(0 < one < 1 for one in quantiles):
        raise ValueError("boosting.json names quantiles that there are not")
    each, metric, curve = read_several(folder, about, len(quantiles), 1)
    return BoostedQuantiles(quantiles, each, curve, metric)


def fit_quantiles(
    job: BoostingJob, quantiles: Sequence[float], watching: Watching
) -> BoostedQuantiles:
    """Grow the trees of all quantiles round by round. The trees of a quantile end once its own
    validation value has not improved for `early_stopping_rounds` rounds, and are kept up to the
    best; they are those that LightGBM grows for it alone. What is watched is the mean over the
    quantiles; the growth ends with the last of them."""
    train = build_dataset(job.train, None, NO_GRADES)
    validation = (
        build_dataset(job.validation, None, NO_GRADES, train)
        if len(job.validation.target)
        else None
    )
    growing = [
        GrowingTrees(
            replace(job, quantile=one, watch="pinball"), train, validation, job.section.max_trees
        )
        for one in quantiles
    ]
    curve = grow_side_by_side(growing, job.section.max_trees, watching)
    each = tuple(Boosted(one.kept(), 1, _METRIC) for one in growing)
    return BoostedQuantiles(tuple(quantiles), each, curve)
