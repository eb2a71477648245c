"""Several LightGBM models as one: of quantiles or targets, grown side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, final

import lightgbm
import numpy as np

from trainwright.core.files import Json, read_json, write_json, write_text
from trainwright.data.base.inputs import Floats, Inputs
from trainwright.model.boosting.lightgbm_dataset import build_dataset
from trainwright.model.boosting.lightgbm_fit import (
    Boosted,
    BoostingJob,
    boosting_parameters,
    restore_unit,
    watched_metric,
    weights_of_classes,
)
from trainwright.model.boosting.lightgbm_text import check_model_text
from trainwright.model.tree_growth import CurvePoint, Watching
from trainwright.model.trees.round_watcher import RoundWatcher

NO_GRADES = np.zeros(0)
_ABOUT = "boosting.json"
_METRIC = "quantile"


def files_of_trees(count: int) -> list[str]:
    """The file of each of several models."""
    return ["model.txt", *(f"model_{at}.txt" for at in range(2, count + 1))]


def grow_side_by_side(
    growing: Sequence[GrowingTrees], most: int, watching: Watching
) -> tuple[CurvePoint, ...]:
    """Grow at most so many rounds of each, and give the curve of the mean of their values. A model
    ends by its own validation value; the growth ends with the last of them."""
    watcher = RoundWatcher(most, watching)
    while watcher.trees < most:
        for one in growing:
            one.grow()
        is_last = watcher.is_last(_mean([one.value for one in growing]), lambda: _train(growing))
        if is_last or all(one.is_done for one in growing):
            break
    return tuple(watcher.curve)


def _train(growing: Sequence[GrowingTrees]) -> float:
    return _mean([one.train_value() for one in growing])


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


@final
class GrowingTrees:
    """The trees of one quantile or target while they grow, at most so many rounds; `value` is the
    validation value of the newest round, and of ended trees the best."""

    def __init__(
        self,
        job: BoostingJob,
        train: lightgbm.Dataset,
        validation: lightgbm.Dataset | None,
        most: int,
    ) -> None:
        self._booster = lightgbm.Booster(boosting_parameters(job), train)
        self._is_judged = validation is not None
        if validation is not None:
            self._booster.add_valid(validation, "validation")
        self._most = most
        self._patience = job.section.early_stopping_rounds
        self._rounds = self._best_round = self._best_trees = 0
        self._best = math.inf
        self.value = math.nan
        self.is_done = False

    def grow(self) -> None:
        """Grow another tree, unless the growth has ended."""
        if self.is_done:
            return
        self._booster.update()
        self._rounds += 1
        self.is_done = self._rounds >= self._most
        if not self._is_judged:
            return
        self.value = _value_of(self._booster.eval_valid())
        if self.value < self._best:
            self._best, self._best_round = self.value, self._rounds
            self._best_trees = self._booster.current_iteration()
        if self._rounds - self._best_round >= self._patience:
            self.is_done, self.value = True, self._best

    def train_value(self) -> float:
        """The value of the training rows."""
        return _value_of(self._booster.eval_train())

    def kept(self) -> lightgbm.Booster:
        """The model up to the best iteration, without the training rows."""
        most = self._best_trees or self._booster.current_iteration()
        return lightgbm.Booster(model_str=self._booster.model_to_string(num_iteration=most))


def _value_of(said: Any) -> float:
    """Value of the only metric: LightGBM gives (data, metric, value, whether more is better)."""
    return float(said[0][2])


class SeveralBoosted:
    """Trees of each, truncated at their own best iteration."""

    __slots__ = ()

    each: tuple[Boosted, ...]
    metric: str
    curve: tuple[CurvePoint, ...]

    kind: ClassVar[str] = "lightgbm"

    @property
    def trees(self) -> int:
        """Trees of all."""
        return sum(one.trees for one in self.each)

    @property
    def splits(self) -> int:
        """Splits of all trees."""
        return sum(one.splits for one in self.each)

    def _write(self, folder: Path, outputs: int, own: Json) -> None:
        """Write the trees of each in LightGBM's own text format, those of the first as `model.txt`,
        and `boosting.json`."""
        for name, one in zip(files_of_trees(len(self.each)), self.each, strict=True):
            write_text(folder / name, one.booster.model_to_string())
        about: Json = {
            "outputs": outputs,
            **own,
            "metric": self.metric,
            "curve": [[point.trees, point.train, point.validation] for point in self.curve],
            "kept": [one.trees for one in self.each],
        }
        write_json(folder / _ABOUT, about)


def read_about(folder: Path) -> Json:
    """What `boosting.json` of a folder says."""
    return read_json(folder / _ABOUT)


def read_several(
    folder: Path, about: Json, count: int, outputs: int
) -> tuple[tuple[Boosted, ...], str, tuple[CurvePoint, ...]]:
    """The models, their metric and their curve.

    Raises:
        KeyError, TypeError, ValueError: invalid content, found before LightGBM reads it.
    """
    texts = [(folder / name).read_text(encoding="utf-8") for name in files_of_trees(count)]
    for text in texts:
        check_model_text(text, outputs)
    metric = str(about["metric"])
    each = tuple(Boosted(lightgbm.Booster(model_str=text), outputs, metric) for text in texts)
    curve = tuple(CurvePoint(int(trees), train, value) for trees, train, value in about["curve"])
    return each, metric, curve


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
    each = tuple(Boosted(restore_unit(one.kept(), job), 1, _METRIC) for one in growing)
    return BoostedQuantiles(tuple(quantiles), each, curve)


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
        Boosted(restore_unit(one.kept(), job), job.outputs, metric)
        for one, job in zip(growing, jobs, strict=True)
    )
    return BoostedTargets(each, metric, curve)
