"""One LightGBM model for each of several targets, grown side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from trainwright.data.base.table import Floats, Inputs
from trainwright.model.boosting.growing_trees import NO_GRADES, GrowingTrees, grow_side_by_side
from trainwright.model.boosting.lightgbm_dataset import build_dataset
from trainwright.model.boosting.lightgbm_trees import (
    Boosted,
    BoostingJob,
    watched_metric,
    weights_of_classes,
)
from trainwright.model.boosting.several_boosted import SeveralBoosted, read_about, read_several
from trainwright.model.tree_growth import CurvePoint, Watching


@final
@dataclass(frozen=True, slots=True)
class BoostedTargets(SeveralBoosted):
    """Trees of each of T targets. Scores are values, or of labels their probabilities, [N, T]."""

    each: tuple[Boosted, ...]
    metric: str
    curve: tuple[CurvePoint, ...] = ()

    def score(self, inputs: Inputs) -> Floats:
        """Values or probabilities [N, T]."""
        return np.stack([one.score(inputs)[:, -1] for one in self.each], axis=1)

    def contributions(self, inputs: Inputs) -> Floats:
        """As `AttributingScorer`, of each target."""
        return np.concatenate([one.contributions(inputs) for one in self.each], axis=1)

    def write(self, folder: Path) -> None:
        """Write what `read_targets` reads."""
        self._write(folder, self.each[0].outputs, {"targets": len(self.each)})


def names_targets(folder: Path) -> bool:
    """Does the folder hold trees of several targets?"""
    return "targets" in read_about(folder)


def read_targets(folder: Path) -> BoostedTargets:
    """Read what `BoostedTargets.write` wrote.

    Raises:
        KeyError, TypeError, ValueError: invalid content, found before LightGBM reads it.
    """
    about = read_about(folder)
    outputs, count = int(about["outputs"]), int(about["targets"])
    if outputs not in (1, 2) or not 2 <= count <= len(list(folder.iterdir())):
        raise ValueError("boosting.json names targets that there are not")
    return BoostedTargets(*read_several(folder, about, count, outputs))


def fit_targets(
    jobs: Sequence[BoostingJob], watching: Watching, rounds: Sequence[int] = ()
) -> BoostedTargets:
    """Grow the trees of all targets round by round. Those of a target end once its own validation
    value has not improved for `early_stopping_rounds` rounds, and are kept up to the best; they
    are those that LightGBM grows for it alone. What is watched is the mean over the targets. With
    `rounds` each target has so many."""
    growing = []
    limits = rounds or [job.section.max_trees for job in jobs]
    for job, limit in zip(jobs, limits, strict=True):
        weights = weights_of_classes(job)
        train = build_dataset(job.train, weights, NO_GRADES)
        has_validation = len(job.validation.target) > 0
        validation = build_dataset(job.validation, weights, NO_GRADES, train)
        growing.append(GrowingTrees(job, train, validation if has_validation else None, limit))
    curve = grow_side_by_side(growing, max(limits), watching)
    metric = watched_metric(jobs[0])
    each = tuple(
        Boosted(one.kept(), job.outputs, metric) for one, job in zip(growing, jobs, strict=True)
    )
    return BoostedTargets(each, metric, curve)
