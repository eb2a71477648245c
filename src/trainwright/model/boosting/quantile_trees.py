"""One LightGBM model for each of several quantiles, grown side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, final

import lightgbm
import numpy as np

from trainwright.core.files import Json, read_json, write_json, write_text
from trainwright.data.base.table import Floats, Inputs
from trainwright.model.boosting.growing_trees import (
    NO_GRADES,
    GrowingTrees,
    files_of_trees,
    grow_side_by_side,
)
from trainwright.model.boosting.lightgbm_dataset import build_dataset
from trainwright.model.boosting.lightgbm_text import check_model_text
from trainwright.model.boosting.lightgbm_trees import (
    Boosted,
    BoostingJob,
)
from trainwright.model.tree_growth import CurvePoint, Watching

_METRIC = "quantile"


@final
@dataclass(frozen=True, slots=True)
class BoostedQuantiles:
    """Trees of each quantile, each truncated at its own best iteration. Scores are the quantiles
    [N, K], as they are: of a row a higher one may be below a lower one."""

    quantiles: tuple[float, ...]
    each: tuple[Boosted, ...]
    curve: tuple[CurvePoint, ...] = ()
    metric: str = _METRIC
    kind: ClassVar[str] = "lightgbm"

    @property
    def trees(self) -> int:
        """Trees of all quantiles."""
        return sum(one.trees for one in self.each)

    @property
    def splits(self) -> int:
        """Splits of all trees."""
        return sum(one.splits for one in self.each)

    def score(self, inputs: Inputs) -> Floats:
        """Quantiles [N, K]."""
        return np.concatenate([one.score(inputs) for one in self.each], axis=1)

    def contributions(self, inputs: Inputs) -> Floats:
        """As `AttributingScorer`, of the median."""
        return self.each[self.quantiles.index(0.5)].contributions(inputs)

    def write(self, folder: Path) -> None:
        """Write the trees of each quantile in LightGBM's own text format, those of the lowest as
        `model.txt`, and `boosting.json`."""
        for name, one in zip(files_of_trees(len(self.each)), self.each, strict=True):
            write_text(folder / name, one.booster.model_to_string())
        about: Json = {
            "outputs": 1,
            "quantiles": list(self.quantiles),
            "metric": self.metric,
            "curve": [[point.trees, point.train, point.validation] for point in self.curve],
            "kept": [one.trees for one in self.each],
        }
        write_json(folder / "boosting.json", about)


def names_quantiles(folder: Path) -> bool:
    """Does the folder hold trees of several quantiles?"""
    return "quantiles" in read_json(folder / "boosting.json")


def read_quantiles(folder: Path) -> BoostedQuantiles:
    """Read what `BoostedQuantiles.write` wrote.

    Raises:
        KeyError, TypeError, ValueError: invalid content, found before LightGBM reads it.
    """
    about = read_json(folder / "boosting.json")
    quantiles = tuple(map(float, about["quantiles"]))
    if 0.5 not in quantiles or not all(0 < one < 1 for one in quantiles):
        raise ValueError("boosting.json names quantiles that there are not")
    texts = [(folder / name).read_text(encoding="utf-8") for name in files_of_trees(len(quantiles))]
    for text in texts:
        check_model_text(text, 1)
    metric = str(about["metric"])
    each = tuple(Boosted(lightgbm.Booster(model_str=text), 1, metric) for text in texts)
    curve = tuple(CurvePoint(int(trees), train, value) for trees, train, value in about["curve"])
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
        GrowingTrees(replace(job, quantile=one, watch="pinball"), train, validation)
        for one in quantiles
    ]
    curve = grow_side_by_side(growing, job.section.max_trees, watching)
    each = tuple(Boosted(one.kept(), 1, _METRIC) for one in growing)
    return BoostedQuantiles(tuple(quantiles), each, curve)
