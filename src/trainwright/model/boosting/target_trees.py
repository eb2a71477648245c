"""One LightGBM model for each of several targets, grown side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
from trainwright.model.boosting.lightgbm_trees import Boosted, BoostingJob, watched_metric
from trainwright.model.tree_growth import CurvePoint, Watching


@final
@dataclass(frozen=True, slots=True)
class BoostedTargets:
    """Trees of each of T targets, each truncated at its own best iteration. Scores are values, or
    of labels their probabilities, [N, T]."""

    each: tuple[Boosted, ...]
    metric: str
    curve: tuple[CurvePoint, ...] = ()
    kind: ClassVar[str] = "lightgbm"

    @property
    def trees(self) -> int:
        """Trees of all targets."""
        return sum(one.trees for one in self.each)

    @property
    def splits(self) -> int:
        """Splits of all trees."""
        return sum(one.splits for one in self.each)

    def score(self, inputs: Inputs) -> Floats:
        """Values or probabilities [N, T]."""
        return np.stack([one.score(inputs)[:, -1] for one in self.each], axis=1)

    def contributions(self, inputs: Inputs) -> Floats:
        """As `AttributingScorer`, of each target."""
        return np.concatenate([one.contributions(inputs) for one in self.each], axis=1)

    def write(self, folder: Path) -> None:
        """Write the trees of each target in LightGBM's own text format, those of the first as
        `model.txt`, and `boosting.json`."""
        for name, one in zip(files_of_trees(len(self.each)), self.each, strict=True):
            write_text(folder / name, one.booster.model_to_string())
        about: Json = {
            "outputs": self.each[0].outputs,
            "targets": len(self.each),
            "metric": self.metric,
            "curve": [[point.trees, point.train, point.validation] for point in self.curve],
            "kept": [one.trees for one in self.each],
        }
        write_json(folder / "boosting.json", about)


def names_targets(folder: Path) -> bool:
    """Does the folder hold trees of several targets?"""
    return "targets" in read_json(folder / "boosting.json")


def read_targets(folder: Path) -> BoostedTargets:
    """Read what `BoostedTargets.write` wrote.

    Raises:
        KeyError, TypeError, ValueError: invalid content, found before LightGBM reads it.
    """
    about = read_json(folder / "boosting.json")
    outputs, metric = int(about["outputs"]), str(about["metric"])
    if outputs not in (1, 2) or not 2 <= int(about["targets"]) <= len(list(folder.iterdir())):
        raise ValueError("boosting.json names targets that there are not")
    names = files_of_trees(int(about["targets"]))
    texts = [(folder / name).read_text(encoding="utf-8") for name in names]
    for text in texts:
        check_model_text(text, outputs)
    each = tuple(Boosted(lightgbm.Booster(model_str=text), outputs, metric) for text in texts)
    curve = tuple(CurvePoint(int(trees), train, value) for trees, train, value in about["curve"])
    return BoostedTargets(each, metric, curve)


def fit_targets(jobs: Sequence[BoostingJob], watching: Watching) -> BoostedTargets:
    """Grow the trees of all targets round by round. Those of a target end once its own validation
    value has not improved for `early_stopping_rounds` rounds, and are kept up to the best; they
    are those that LightGBM grows for it alone. What is watched is the mean over the targets."""
    growing = []
    for job in jobs:
        train = build_dataset(job.train, None, NO_GRADES)
        has_validation = len(job.validation.target) > 0
        validation = build_dataset(job.validation, None, NO_GRADES, train)
        growing.append(GrowingTrees(job, train, validation if has_validation else None))
    curve = grow_side_by_side(growing, jobs[0].section.max_trees, watching)
    metric = watched_metric(jobs[0])
    each = tuple(
        Boosted(one.kept(), job.outputs, metric) for one, job in zip(growing, jobs, strict=True)
    )
    return BoostedTargets(each, metric, curve)
